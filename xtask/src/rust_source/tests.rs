//! Tests of the scanner: the text that it takes for code, and the functions that it finds.

use super::*;

#[test]
fn comments_strings_and_characters_are_no_code() {
    let check = |text: &str, code: &str| {
        assert_eq!(RustSource::scan(text).code, code, "{text}");
        assert_eq!(text.len(), code.len(), "{text}");
    };
    check("a // {\nb", "a     \nb");
    check("a /* { /* { */ { */ b", "a                   b");
    check(r#"f("{ \" {") }"#, r#"f("      ") }"#);
    check(r##"f(r#"{ " {"#) }"##, r##"f(r#"     "#) }"##);
    check(r##"f(br#"{"#) }"##, r##"f(br#" "#) }"##);
    check(r#"f(r"\") }"#, r#"f(r" ") }"#);
    check("match c { '{' => '\\'', '\\u{7b}' => 'é' }", "match c { ' ' => '  ', '      ' => '  ' }");
    check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
    check("r#type = for\"{\"", "r#type = for\" \"");
    check("let é = \"unclosed {", "let xx = \"          ");
}

#[test]
fn literals_are_the_insides_of_strings_and_nothing_else() {
    let text = r###"a("one", r#"two"#, 'c', b"three") // "four""###;
    let source = RustSource::scan(text);
    let found: Vec<&str> = source.literals.iter().map(|inside| &text[inside.clone()]).collect();
    assert_eq!(found, ["one", "two", "three"]);
}

#[test]
fn functions_are_found_with_their_lines() {
    let text = "trait T {\n    fn declared(&self, x: [u8; 2]);\n    fn given() { let f: fn(u8) = g; }\n}\n\
                pub async fn long<F>(f: F) -> [u8; 3]\nwhere\n    F: Fn(),\n{\n    \
                fn inner() {}\n    \"}\"; // }\n}\n// fn comment() {}\n";
    let found: Vec<_> = RustSource::scan(text)
        .functions()
        .into_iter()
        .map(|function| (function.name, function.line, function.lines))
        .collect();
    let expect = [("given", 3, 1), ("long", 5, 7), ("inner", 9, 1)];
    assert_eq!(found, expect.map(|(name, line, lines)| (name.to_owned(), line, lines)));
}

#[test]
fn inline_tests_begin_at_the_attribute_of_a_module_written_out() {
    let check = |text: &str, expect: Option<usize>| {
        assert_eq!(RustSource::scan(text).first_test_line(), expect, "{text}");
    };
    check("fn a() {}\n#[cfg(test)]\nmod tests {\n}\n", Some(2));
    check("#[cfg(test)]\n#[expect(x)]\nmod tests {\n}\n", Some(1));
    check("#[cfg(test)]\nmod tests;\nmod other {\n}\n", None);
    check("#[cfg(test)]\nfn fixture() {}\nmod other {\n}\n", None);
    check("// #[cfg(test)]\nmod other {\n}\n", None);
}
