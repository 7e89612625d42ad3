//! The text that a terminal shows for the bytes that it gets: enough of a terminal for a line editor.

/// Lines of text and a cursor. It is as wide as anybody writes.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    lines: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// Bytes that are not a whole character or control sequence yet.
    rest: Vec<u8>,
}

impl Screen {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(length) = self.step() {
            self.rest.drain(..length);
        }
    }

    /// Returns all that stands on it.
    pub(crate) fn text(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(|it| it.iter().collect()).collect();
        lines.join("\n")
    }

    /// Takes one character or control sequence, and returns its length; none when it has not come whole yet.
    fn step(&mut self) -> Option<usize> {
        let rest = self.rest.clone();
        match rest.as_slice() {
            [] | [0x1b] => None,
            [0x1b, b'[', sequence @ ..] => {
                let end = sequence.iter().position(|it| (0x40..=0x7e).contains(it))?;
                let parameters = std::str::from_utf8(&sequence[..end]).unwrap();
                self.control(parameters, sequence[end]);
                Some(end + 3)
            }
            [0x1b, ..] => panic!("an unknown sequence: {:?}", String::from_utf8_lossy(&rest)),
            [b'\r', ..] => {
                self.column = 0;
                Some(1)
            }
            [b'\n', ..] => {
                self.row += 1;
                self.line();
                Some(1)
            }
            [0x08, ..] => {
                self.column = self.column.saturating_sub(1);
                Some(1)
            }
            [0x07, ..] => Some(1),
            [first, ..] => {
                let length = match first {
                    0xf0.. => 4,
                    0xe0.. => 3,
                    0xc0.. => 2,
                    _ => 1,
                };
                let character = std::str::from_utf8(rest.get(..length)?).unwrap().chars().next().unwrap();
                self.put(character);
                Some(length)
            }
        }
    }

    fn control(&mut self, parameters: &str, what: u8) {
        let count = parameters.parse().unwrap_or(1);
        match what {
            b'A' => self.row = self.row.saturating_sub(count),
            b'B' => self.row += count,
            b'C' => self.column += count,
            b'D' => self.column = self.column.saturating_sub(count),
            b'K' => {
                let column = self.column;
                self.line().truncate(column);
            }
            b'J' => {
                let (row, column) = (self.row, self.column);
                self.line().truncate(column);
                self.lines.truncate(row + 1);
            }
            // Colours, and modes that do not change the text.
            b'm' | b'h' | b'l' => {}
            other => panic!("an unknown control: {parameters}{}", char::from(other)),
        }
    }

    fn put(&mut self, character: char) {
        let column = self.column;
        let line = self.line();
        while line.len() <= column {
            line.push(' ');
        }
        line[column] = character;
        self.column += 1;
    }

    fn line(&mut self) -> &mut Vec<char> {
        while self.lines.len() <= self.row {
            self.lines.push(Vec::new());
        }
        &mut self.lines[self.row]
    }
}

#[test]
fn a_line_that_is_edited_stands_as_it_is_in_the_end() {
    let mut screen = Screen::default();
    for bytes in [b"\r\x1b[K> ab".as_slice(), b"\x1b[1D\x1b[Kcd\x1b", b"[1m\xc3", b"\xa9\r\nnext"] {
        screen.write(bytes);
    }
    assert_eq!(screen.text(), "> acd\u{e9}\nnext");
}
