//! Tests of the changed places, and of the places that are reported as left out.

use super::*;
use crate::yaml::parse_document;

fn found(text: &str) -> (Vec<String>, OmittedMutations) {
    let mut left_out = OmittedMutations::default();
    let sites = find_sites(&parse_document(text).unwrap(), &mut left_out);
    (sites.iter().map(ToString::to_string).collect(), left_out)
}

fn counted(places: &[(&str, usize)]) -> BTreeMap<String, usize> {
    places.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect()
}

#[test]
fn what_is_compared_as_a_whole_loses_keys_at_every_depth() {
    let (sites, left_out) = found("expected: {final_state: {a: {b: [{c: 1}]}}}");
    assert_eq!(
        sites,
        [
            ".expected.final_state (Remove(0))",
            ".expected.final_state.a (Remove(0))",
            ".expected.final_state.a.b (Drop)",
            ".expected.final_state.a.b (Add)",
            ".expected.final_state.a.b[0] (Remove(0))",
            ".expected.final_state.a.b[0].c (Other)",
        ]
    );
    assert_eq!(
        left_out,
        OmittedMutations { keys: counted(&[("expected", 1)]), ..OmittedMutations::default() }
    );
}

#[test]
fn what_is_not_changed_is_said() {
    let (sites, left_out) = found(
        "file: {invariants: {error_category_not: [c], all: true}}\n\
         case: {expected: {reply: {content_includes: [x]}, obs: [{node_name: a, step: 0}]}}",
    );
    assert_eq!(
        sites,
        [
            ".file.invariants.error_category_not (Add)",
            ".file.invariants.error_category_not (Drop)",
            ".file.invariants.all (Other)",
            ".case.expected.reply.content_includes (Add)",
            ".case.expected.reply.content_includes (Drop)",
            ".case.expected.reply.content_includes[0] (Other)",
            ".case.expected.obs (Drop)",
            ".case.expected.obs (Add)",
            ".case.expected.obs[0].node_name (Other)",
            ".case.expected.obs[0].step (Other)",
        ]
    );
    let wanted = OmittedMutations {
        values: counted(&[("error_category_not", 1)]),
        items: counted(&[("content_includes", 1), ("error_category_not", 1)]),
        keys: counted(&[("events", 2), ("expected", 2), ("invariants", 2), ("reply", 1)]),
    };
    assert_eq!(left_out, wanted);
}

#[test]
fn each_change_makes_another_case() {
    let case =
        parse_document("expected: {final_state: {a: null, b: [1, 2], c: 0.5}, phase: started}").unwrap();
    let all = find_sites(&case, &mut OmittedMutations::default());
    assert_eq!(all.len(), 11);
    for site in all {
        assert_ne!(site.apply_to_case(&case, &mut |_| 0).to_json(), case.to_json(), "{site}");
    }
}
