//! Events, however they are cut.

use proptest::prelude::*;

use super::*;

const LIMIT: usize = 64;

fn read(pieces: &[&[u8]]) -> Result<Vec<ReceivedEvent>> {
    let mut reader = EventReader::new(LIMIT);
    let mut events = Vec::new();
    for piece in pieces {
        reader.push_bytes(piece, &mut events)?;
    }
    Ok(events)
}

fn event(name: Option<&str>, data: &str) -> ReceivedEvent {
    ReceivedEvent { name: name.map(str::to_owned), data: data.to_owned() }
}

fn check(text: &str, expected: &[ReceivedEvent]) {
    assert_eq!(read(&[text.as_bytes()]).unwrap(), expected, "{text:?}");
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(read(&bytes).unwrap(), expected, "byte by byte: {text:?}");
}

#[test]
fn every_line_end_ends_a_line() {
    for end in ["\n", "\r\n", "\r"] {
        let text = format!("data: a{end}{end}event: b{end}data: c{end}{end}");
        check(&text, &[event(None, "a"), event(Some("b"), "c")]);
    }
    check("data: a\r\n\ndata: b\n\r\n", &[event(None, "a"), event(None, "b")]);
}

#[test]
fn lines_of_data_are_joined() {
    check("data: a\ndata: b\ndata\ndata:\n\n", &[event(None, "a\nb\n\n")]);
    check("data: {\"a\":\ndata: 1}\n\n", &[event(None, "{\"a\":\n1}")]);
}

#[test]
fn one_space_belongs_to_the_field() {
    check("data:a\n\ndata:  b \n\n", &[event(None, "a"), event(None, " b ")]);
}

#[test]
fn comments_ids_and_retry_times_are_passed_over() {
    check(": ping\n\nid: 7\nretry: 10\nDATA: no\ndata: a\nid\n: more\n\n: ping\n\n", &[event(None, "a")]);
}

#[test]
fn a_name_without_data_is_no_event_and_is_forgotten() {
    check("event: a\n\ndata: b\n\nevent: c\nevent:\ndata: d\n\n", &[event(None, "b"), event(None, "d")]);
}

#[test]
fn a_byte_order_mark_is_passed_over_once() {
    check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[event(None, "a")]);
    check("\u{feff}\ndata: a\n\n", &[event(None, "a")]);
}

#[test]
fn an_event_that_the_end_cuts_is_not_handed_out() {
    check("data: a\n\ndata: b", &[event(None, "a")]);
    check("data: a\n\ndata: b\n", &[event(None, "a")]);
}

#[test]
fn what_is_no_utf_8_is_refused_in_data_and_passed_over_in_comments() {
    for bad in [&b"data: \xff\n\n"[..], b"data: \xe2\x82\n\n", b"event: \xc0\xaf\n\n"] {
        assert_eq!(read(&[bad]).unwrap_err().category(), "http_stream_invalid");
    }
    assert_eq!(read(&[b": \xff\ndata: a\n\n"]).unwrap(), [event(None, "a")]);
}

#[test]
fn characters_may_be_cut_between_pieces() {
    let text = "data: a€😀ß\n\n";
    for at in 0..text.len() {
        let (one, two) = text.as_bytes().split_at(at);
        assert_eq!(read(&[one, two]).unwrap(), [event(None, "a€😀ß")], "cut at {at}");
    }
}

#[test]
fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
    let line = |bytes: usize| format!("data: {}\n\n", "x".repeat(bytes - "data: ".len()));
    assert_eq!(read(&[line(LIMIT).as_bytes()]).unwrap().len(), 1);
    for text in [line(LIMIT + 1), "x".repeat(LIMIT + 1), format!(": {}", "x".repeat(LIMIT))] {
        assert_eq!(read(&[text.as_bytes()]).unwrap_err().category(), "http_stream_invalid", "{text}");
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(7).collect();
        assert_eq!(read(&pieces).unwrap_err().category(), "http_stream_invalid", "{text}");
    }
}

#[test]
fn many_short_lines_of_one_event_meet_the_limit_too() {
    let text = "data: 0123456789\n".repeat(LIMIT / 10);
    assert_eq!(read(&[text.as_bytes()]).unwrap_err().category(), "http_stream_invalid");
}

/// Text that looks like a stream of events often enough.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let token = prop::sample::select(vec![
        "data:", "data: ", "event: x", "id: 1", ":", "a", "€", "😀", "\n", "\n\n", "\r", "\r\n", "\r\n\r\n",
        "\u{feff}",
    ]);
    prop::collection::vec(token, 0..40).prop_map(|it| it.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_cutting_gives_the_same_events(bytes in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let whole = read(&[&bytes]).map_err(|it| it.to_string());
        let mut places: Vec<usize> = cuts.iter().map(|it| it.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|it| &bytes[it[0]..it[1]]).collect();
        prop_assert_eq!(read(&pieces).map_err(|it| it.to_string()), whole);
    }

    #[test]
    fn no_bytes_make_it_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..8)) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        if let Ok(events) = read(&pieces) {
            prop_assert!(events.iter().all(|it| it.data.len() <= LIMIT));
        }
    }
}
