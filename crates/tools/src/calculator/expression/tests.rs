//! Expressions by table, and random trees against a second evaluator.

use proptest::prelude::*;

use super::*;

#[test]
fn an_expression_is_computed_by_the_usual_rules() {
    for (text, expected) in [
        ("2 + 3 * 4", "14"),
        ("(2+3)*4", "20"),
        ("2 - 3 - 4", "-5"),
        ("2 ^ 3 ^ 2", "512"),
        ("-2^2", "-4"),
        ("2^-1", "0.5"),
        ("--3", "3"),
        ("7 % 4", "3"),
        ("1/3", "0.333333333333333"),
        ("0.1 + 0.2", "0.3"),
        (".5 + 1.", "1.5"),
        ("12345679 * 9", "111111111"),
        ("2^64", "1.84467440737096e19"),
        ("0 * -1", "0"),
    ] {
        assert_eq!(evaluate_expression(text).map(format_number), Ok(expected.to_owned()), "{text}");
    }
}

#[test]
fn what_is_no_expression_or_no_number_is_told() {
    for (text, expected) in [
        ("", "the expression ends where a number should be"),
        ("1 +", "the expression ends where a number should be"),
        ("(1", "a closing parenthesis is missing"),
        ("1)", "')' at position 2 is not expected"),
        ("1 é", "'é' at position 3 is not expected"),
        ("1.2.3", "\"1.2.3\" is no number"),
        ("1 / 0", "division by zero"),
        ("1 % (2 - 2)", "division by zero"),
        ("0 ^ -1", "division by zero"),
        ("(-1) ^ 0.5", "the result is not a real number"),
        ("9^9^9", "the result is too large"),
    ] {
        assert_eq!(evaluate_expression(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn length_and_depth_have_limits() {
    let deep = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(evaluate_expression(&deep(DEPTH_MAX)), Ok(1.0));
    for text in [deep(DEPTH_MAX + 1), format!("{}1", "-".repeat(65)), "1^".repeat(65) + "1"] {
        assert_eq!(evaluate_expression(&text), Err("the expression nests deeper than 64".to_owned()));
    }
    let long = "1".repeat(BYTES_MAX + 1);
    assert_eq!(evaluate_expression(&long), Err("the expression is longer than 1000 bytes".to_owned()));
}

#[derive(Debug, Clone)]
enum Tree {
    Number(u32),
    Minus(Box<Self>),
    Binary(char, Box<Self>, Box<Self>),
}

impl Tree {
    fn value(&self) -> f64 {
        match self {
            Self::Number(it) => f64::from(*it) / 100.0,
            Self::Minus(it) => -it.value(),
            Self::Binary(sign, left, right) => {
                let (left, right) = (left.value(), right.value());
                match sign {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    '/' => left / right,
                    '%' => left % right,
                    '^' => left.powf(right),
                    other => unreachable!("{other} is never made"),
                }
            }
        }
    }

    /// Says whether a step on the way is no number: then we must refuse, though the end may be one.
    fn breaks(&self) -> bool {
        let below = match self {
            Self::Number(_) => false,
            Self::Minus(it) => it.breaks(),
            Self::Binary(_, left, right) => left.breaks() || right.breaks(),
        };
        below || !self.value().is_finite()
    }

    /// Writes the tree with as few parentheses as the binding strengths ask for.
    fn text(&self) -> String {
        match self {
            Self::Number(it) => format!("{}.{:02}", it / 100, it % 100),
            Self::Minus(it) => format!("-{}", it.at_least(3)),
            Self::Binary('^', left, right) => {
                format!("{} ^{}", left.at_least(5), right.at_least(3))
            }
            Self::Binary(sign, left, right) => {
                let own = self.strength();
                format!("{} {sign} {}", left.at_least(own), right.at_least(own + 1))
            }
        }
    }

    fn at_least(&self, strength: u8) -> String {
        if self.strength() < strength { format!("({})", self.text()) } else { self.text() }
    }

    fn strength(&self) -> u8 {
        match self {
            Self::Binary('+' | '-', ..) => 1,
            Self::Binary('*' | '/' | '%', ..) => 2,
            Self::Minus(_) => 3,
            Self::Binary(..) => 4,
            Self::Number(_) => 5,
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = (0..2_000_u32).prop_map(Tree::Number);
    leaf.prop_recursive(6, 40, 2, |inner| {
        let sign = prop::sample::select(vec!['+', '-', '*', '/', '%', '^']);
        prop_oneof![
            1 => inner.clone().prop_map(|it| Tree::Minus(Box::new(it))),
            5 => (sign, inner.clone(), inner)
                .prop_map(|(sign, left, right)| Tree::Binary(sign, Box::new(left), Box::new(right))),
        ]
    })
}

proptest! {
    #[test]
    fn a_written_tree_has_the_value_of_the_tree(tree in tree()) {
        let text = tree.text();
        prop_assume!(text.len() <= BYTES_MAX);
        if tree.breaks() {
            prop_assert!(evaluate_expression(&text).is_err(), "{} was computed", text);
        } else {
            prop_assert_eq!(evaluate_expression(&text), Ok(tree.value()), "{}", text);
        }
    }

    #[test]
    fn nothing_makes_it_panic(text in "[-+*/%^(). 0-9aé]{0,80}") {
        drop(evaluate_expression(&text).map(format_number));
    }
}
