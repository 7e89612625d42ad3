//! Pictures that are kept, to be looked at: `tests/golden`. To write them anew, run these tests with
//! SINGLETREE_UPDATE=1.

use std::path::Path;

use singletree_draw::{GraphPicture, TimelinePicture};

use crate::{samples, turns};

/// Compares a picture with the one that is kept.
pub(crate) fn check(file: &str, picture: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("SINGLETREE_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, picture).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(picture == kept, "{file} is another picture; look at it, and keep it with SINGLETREE_UPDATE=1");
}

#[test]
fn graphs_look_as_they_did() {
    for (name, outline) in samples::all() {
        let picture = GraphPicture::new(name, &outline);
        check(&format!("graph-{name}.svg"), &picture.render_svg());
        check(&format!("graph-{name}.mmd"), &picture.render_mermaid());
        check(&format!("graph-{name}.dot"), &picture.render_dot());
    }
}

#[test]
fn timelines_look_as_they_did() {
    for (name, timeline) in turns::all() {
        let picture = TimelinePicture::new(&timeline, &timeline.turns[0].turn);
        check(&format!("turn-{name}.svg"), &picture.render_svg());
        for columns in [80, 120] {
            let lines = picture
                .render_text_lines(columns)
                .into_iter()
                .map(|it| format!("{}\n", format!("{:?}  {}", it.tone, it.text).trim_end()));
            check(&format!("turn-{name}-{columns}.txt"), &lines.collect::<String>());
        }
    }
}
