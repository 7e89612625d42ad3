//! A small expression language: reading and computing in one pass.
//!
//! ```text
//! sum     = product (("+" | "-") product)*
//! product = unary (("*" | "/" | "%") unary)*
//! unary   = "-" unary | "+" unary | power
//! power   = atom ("^" unary)?             so -2^2 is -4, and 2^3^2 is 2^9
//! atom    = number | "(" sum ")"
//! ```

/// How long an expression may be, in bytes.
const BYTES_MAX: usize = 1_000;
/// How deep parentheses, signs and powers may nest: bounds the stack.
const DEPTH_MAX: usize = 64;

/// Computes an expression.
pub(super) fn evaluate_expression(text: &str) -> Result<f64, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("the expression is longer than {BYTES_MAX} bytes"));
    }
    let mut reader = ExpressionParser { text, at: 0, depth: 0 };
    let value = reader.evaluate_sum()?;
    match reader.peek_nonspace_char() {
        None => Ok(value),
        Some(found) => Err(reader.unexpected_char_error(found)),
    }
}

/// Writes a value with 15 significant digits: enough for every decimal that went in, and short of
/// the digits that binary fractions add.
pub(super) fn format_number(value: f64) -> String {
    let rounded: f64 = format!("{value:.14e}").parse().unwrap_or(value);
    let size = rounded.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if (1e-6..1e15).contains(&size) {
        format!("{rounded}")
    } else {
        format!("{rounded:e}")
    }
}

struct ExpressionParser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl ExpressionParser<'_> {
    fn evaluate_sum(&mut self) -> Result<f64, String> {
        let mut value = self.evaluate_product()?;
        while let Some(sign @ ('+' | '-')) = self.peek_nonspace_char() {
            self.at += 1;
            let right = self.evaluate_product()?;
            value = require_finite(if sign == '+' { value + right } else { value - right })?;
        }
        Ok(value)
    }

    fn evaluate_product(&mut self) -> Result<f64, String> {
        let mut value = self.evaluate_unary()?;
        while let Some(sign @ ('*' | '/' | '%')) = self.peek_nonspace_char() {
            self.at += 1;
            let right = self.evaluate_unary()?;
            if sign != '*' && right == 0.0 {
                return Err("division by zero".to_owned());
            }
            value = require_finite(match sign {
                '*' => value * right,
                '/' => value / right,
                _ => value % right,
            })?;
        }
        Ok(value)
    }

    fn evaluate_unary(&mut self) -> Result<f64, String> {
        match self.peek_nonspace_char() {
            Some('-') => {
                self.at += 1;
                self.evaluate_nested(Self::evaluate_unary).map(|nested| -nested)
            }
            Some('+') => {
                self.at += 1;
                self.evaluate_nested(Self::evaluate_unary)
            }
            Some(_) | None => self.evaluate_power(),
        }
    }

    fn evaluate_power(&mut self) -> Result<f64, String> {
        let base = self.evaluate_operand()?;
        if self.peek_nonspace_char() != Some('^') {
            return Ok(base);
        }
        self.at += 1;
        let exponent = self.evaluate_nested(Self::evaluate_unary)?;
        if base == 0.0 && exponent < 0.0 {
            return Err("division by zero".to_owned());
        }
        require_finite(base.powf(exponent))
    }

    fn evaluate_operand(&mut self) -> Result<f64, String> {
        match self.peek_nonspace_char() {
            Some('(') => {
                self.at += 1;
                let value = self.evaluate_nested(Self::evaluate_sum)?;
                match self.peek_nonspace_char() {
                    Some(')') => {
                        self.at += 1;
                        Ok(value)
                    }
                    Some(found) => Err(self.unexpected_char_error(found)),
                    None => Err("a closing parenthesis is missing".to_owned()),
                }
            }
            Some('0'..='9' | '.') => self.parse_number(),
            Some(found) => Err(self.unexpected_char_error(found)),
            None => Err("the expression ends where a number should be".to_owned()),
        }
    }

    fn parse_number(&mut self) -> Result<f64, String> {
        let rest = &self.text[self.at..];
        let end = rest.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(rest.len());
        let digits = &rest[..end];
        let value: f64 = digits.parse().map_err(|_| format!("{digits:?} is no number"))?;
        self.at += end;
        require_finite(value)
    }

    fn evaluate_nested(&mut self, read: fn(&mut Self) -> Result<f64, String>) -> Result<f64, String> {
        if self.depth == DEPTH_MAX {
            return Err(format!("the expression nests deeper than {DEPTH_MAX}"));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Skips space and returns the next character.
    fn peek_nonspace_char(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn unexpected_char_error(&self, found: char) -> String {
        format!("{found:?} at position {} is not expected", self.at + 1)
    }
}

fn require_finite(value: f64) -> Result<f64, String> {
    if value.is_nan() {
        Err("the result is not a real number".to_owned())
    } else if value.is_infinite() {
        Err("the result is too large".to_owned())
    } else {
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
