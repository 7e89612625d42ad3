//! Failure mocks (conformance-adapter §5.1): nodes that fail as often as the fixture says, and then succeed.

use serde_json::{Map, Value};

use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::schema::parse_literals;

/// The category of mocks over fan-out instances that name none.
const DEFAULT_CATEGORY: &str = "provider_unavailable";

/// No retry of a fixture tries more often.
const MOST_FAILURES: usize = 1000;

/// A mock that fails.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlakyMockSpec {
    /// When it fails, and how.
    pub(crate) fails: MockFailureMode,
    /// Its update when it does not fail: literal values, and names of fields that are read.
    pub(crate) success: Option<Map<String, Value>>,
}

/// When a mock fails, and how.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MockFailureMode {
    /// At each attempt as the list says; nothing is no failure.
    Attempts(Vec<Option<MockErrorSpec>>),
    /// In the first invocation of the case.
    FirstInvocation,
    /// Where the item has this value.
    Item(i64, MockErrorSpec),
    /// At the first attempts of each fan-out instance, or at the first runs of each whole instance.
    EachInstance(u32, MockErrorSpec),
    /// In fan-out instances of these indices: of the first invocation, of every one.
    Indices {
        /// In the first invocation.
        first: Vec<i64>,
        /// In every one.
        always: Vec<i64>,
    },
    /// At the first attempts of the first invocation, and of a resumed one.
    Invocations {
        /// How many of the first.
        first: u32,
        /// How many of a resumed one.
        resumed: u32,
        /// How.
        raised: MockErrorSpec,
    },
}

/// An error that a mock raises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MockErrorSpec {
    /// Whether it is marked as transient.
    pub(crate) transient: bool,
    /// Its category.
    pub(crate) category: Option<String>,
    /// Its message.
    pub(crate) message: String,
    /// The cause of the error.
    pub(crate) cause: Option<Box<Self>>,
}

impl MockErrorSpec {
    /// An error of a mock whose fixture describes none.
    #[must_use]
    pub(crate) fn with_default_message(category: Option<String>) -> Self {
        Self { transient: false, category, message: "the fixture lets this node fail".into(), cause: None }
    }
}

/// The names of the mocks.
pub(super) const MOCKS: &[&str] =
    &["flaky", "flaky_by_index", "flaky_per_index", "flaky_instance_only", "flaky_resume_aware"];

/// Reads a mock by its name.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn parse_flaky_mock(kind: &str, spot: LocatedNode) -> Outcome<FlakyMockSpec> {
    let mut block = spot.into_map_reader()?;
    let mock = match kind {
        "flaky" => take_failure_sequence(&mut block)?,
        "flaky_by_index" => take_failures_by_index(&mut block)?,
        "flaky_per_index" => FlakyMockSpec {
            fails: MockFailureMode::Indices {
                first: parse_whole_numbers(block.take_value("fail_first_run_indices"))?,
                always: parse_whole_numbers(block.take_value("always_fail_indices"))?,
            },
            success: take_success_update(&mut block, "success_compute")?,
        },
        "flaky_instance_only" => {
            let count = parse_count(&block.take_required("fail_count_per_instance")?)?;
            FlakyMockSpec {
                fails: MockFailureMode::EachInstance(count, take_error_category(&mut block)?),
                success: take_success_update(&mut block, "success_compute")?,
            }
        }
        "flaky_resume_aware" => FlakyMockSpec {
            fails: MockFailureMode::Invocations {
                first: parse_count(&block.take_required("fail_first_invocation_count")?)?,
                resumed: parse_count(&block.take_required("fail_resumed_invocation_count")?)?,
                raised: take_error_category(&mut block)?,
            },
            success: take_success_update(&mut block, "on_success")?,
        },
        other => return Err(CaseFailure::reader_error(block.path(), format!("unknown mock '{other}'"))),
    };
    block.reject_remaining_keys()?;
    Ok(mock)
}

fn take_failure_sequence(block: &mut YamlMapReader) -> Outcome<FlakyMockSpec> {
    if let Some(first) = block.take_value("fail_first_invocation_only") {
        let fails = if first.as_bool()? {
            MockFailureMode::FirstInvocation
        } else {
            MockFailureMode::Attempts(Vec::new())
        };
        return Ok(FlakyMockSpec { fails, success: take_success_update(block, "on_success")? });
    }
    if let Some(count) = block.take_value("fail_count") {
        // observability 007: each of the first attempts fails alike.
        let count = usize::try_from(count.as_integer()?).map_err(|_| count.unexpected_kind("a number"))?;
        let failure = Some(take_error_category(block)?);
        let fails = MockFailureMode::Attempts(vec![failure; count.min(MOST_FAILURES)]);
        return Ok(FlakyMockSpec { fails, success: take_success_update(block, "on_success")? });
    }
    let entries = block.take_required("failure_sequence")?.into_items()?.into_iter();
    let entries = entries.map(|it| if it.is_null() { Ok(None) } else { parse_raised_error(it).map(Some) });
    let fails = MockFailureMode::Attempts(entries.collect::<Outcome<_>>()?);
    let named = ["success_update", "on_success"]
        .into_iter()
        .find(|item| block.remaining_keys().any(|key| key == *item));
    Ok(FlakyMockSpec { fails, success: take_success_update(block, named.unwrap_or("success_update"))? })
}

fn take_failures_by_index(block: &mut YamlMapReader) -> Outcome<FlakyMockSpec> {
    let fails = match block.take_value("fail_when_idx") {
        Some(it) => MockFailureMode::Item(it.as_integer()?, take_error_category(block)?),
        None => {
            let count = parse_count(&block.take_required("fail_count_per_idx")?)?;
            MockFailureMode::EachInstance(count, take_error_category(block)?)
        }
    };
    Ok(FlakyMockSpec { fails, success: take_success_update(block, "success_compute")? })
}

fn take_error_category(block: &mut YamlMapReader) -> Outcome<MockErrorSpec> {
    let category = block.take_text("category")?.unwrap_or_else(|| DEFAULT_CATEGORY.into());
    Ok(MockErrorSpec::with_default_message(Some(category)))
}

fn take_success_update(block: &mut YamlMapReader, key: &str) -> Outcome<Option<Map<String, Value>>> {
    block.take_value(key).map(parse_literals).transpose()
}

fn parse_raised_error(spot: LocatedNode) -> Outcome<MockErrorSpec> {
    let mut block = spot.into_map_reader()?;
    let mut text = |key: &str| match block.take_value(key) {
        Some(it) if !it.is_null() => it.as_text().map(|text| Some(text.to_owned())),
        Some(_) | None => Ok(None),
    };
    let (category, message) = (text("category")?, text("message")?);
    let raised = MockErrorSpec {
        category,
        message: message.unwrap_or_else(|| "the fixture lets this node fail".into()),
        transient: block.take_value("transient").map(|value| value.as_bool()).transpose()?.unwrap_or(false),
        cause: block.take_value("cause").map(parse_raised_error).transpose()?.map(Box::new),
    };
    block.reject_remaining_keys()?;
    Ok(raised)
}

fn parse_count(spot: &LocatedNode) -> Outcome<u32> {
    u32::try_from(spot.as_integer()?).map_err(|_| spot.unexpected_kind("a number that is not negative"))
}

fn parse_whole_numbers(spot: Option<LocatedNode>) -> Outcome<Vec<i64>> {
    let Some(spot) = spot else { return Ok(Vec::new()) };
    spot.into_items()?.iter().map(LocatedNode::as_integer).collect()
}
