//! Other tools read the pictures, where those tools are installed.

use std::io::Write;
use std::process::{Command, Stdio};

use singletree_draw::GraphPicture;

use crate::samples;

#[expect(clippy::print_stderr, reason = "who runs the tests is to see that a tool is missing")]
#[test]
fn graphviz_draws_every_graph_without_a_word() {
    let tool = Command::new("dot").arg("-V").stderr(Stdio::null()).status();
    if !tool.is_ok_and(|it| it.success()) {
        eprintln!("not run: graphviz_draws_every_graph_without_a_word: there is no `dot` here");
        return;
    }
    for (name, outline) in samples::all() {
        let mut dot = Command::new("dot")
            .arg("-Tsvg")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let picture = GraphPicture::new(name, &outline).render_dot();
        dot.stdin.take().unwrap().write_all(picture.as_bytes()).unwrap();
        let output = dot.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && err.is_empty(), "{name}: {err}");
        for node in &outline.nodes {
            let begin: String = node.name.chars().take_while(char::is_ascii_alphanumeric).collect();
            assert!(out.contains(&begin), "{name}: {} is missing", node.name);
        }
        assert!(!out.contains("<script"), "{name}");
    }
}
