//! Reads metrics from their text, for receivers that want values.
//!
//! The library that counts tells its values as text only. So a receiver gets the values that `/metrics` shows; the names that
//! the specification writes with dots are restored.

use std::collections::BTreeMap;

use singletree_telemetry::{
    HistogramCounts, METRIC_DIMENSIONS, MetricAttributes, MetricFamily, MetricInstrument, MetricValues,
};

use super::call_metrics::replace_dots;

/// Reads a text of OpenMetrics as this server writes it. A line that it does not write is left out.
pub(super) fn read_families(text: &str) -> Vec<MetricFamily> {
    let mut families: Vec<FamilyText<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(told) = line.strip_prefix("# ") {
            let mut words = told.splitn(3, ' ');
            let (Some(keyword), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if families.last().is_none_or(|family| family.name != name) {
                families.push(FamilyText { name, ..FamilyText::default() });
            }
            let Some(family) = families.last_mut() else { continue };
            match keyword {
                "HELP" => family.help = rest.strip_suffix('.').unwrap_or(rest),
                "TYPE" => family.kind = rest,
                "UNIT" => family.unit = rest,
                _ => {}
            }
        } else if let (Some(family), Some(sample)) = (families.last_mut(), read_sample(line)) {
            family.samples.push(sample);
        }
    }
    families.iter().filter_map(FamilyText::to_family).collect()
}

/// A metric with the lines of its values.
#[derive(Default)]
struct FamilyText<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    unit: &'a str,
    samples: Vec<Sample<'a>>,
}

/// A line with a value.
struct Sample<'a> {
    name: &'a str,
    attributes: MetricAttributes,
    value: f64,
}

impl FamilyText<'_> {
    fn to_family(&self) -> Option<MetricFamily> {
        let values = match self.kind {
            "counter" => MetricValues::Counter(self.values_of("_total")),
            "gauge" => MetricValues::Gauge(self.values_of("")),
            "histogram" => MetricValues::Histogram(self.histograms()),
            _ => return None,
        };
        let is_named = |it: &MetricInstrument| {
            let name = self.name.strip_suffix("_seconds").unwrap_or(self.name);
            replace_dots(it.name()) == name
        };
        let instrument = MetricInstrument::ALL.into_iter().find(is_named);
        let unit = match self.unit {
            "seconds" => "s",
            "bytes" => "By",
            other => other,
        };
        Some(MetricFamily {
            name: instrument.map(MetricInstrument::name).unwrap_or(self.name).to_owned(),
            description: self.help.to_owned(),
            unit: instrument.map(MetricInstrument::unit).unwrap_or(unit).to_owned(),
            values,
        })
    }

    fn values_of(&self, suffix: &str) -> Vec<(MetricAttributes, f64)> {
        let samples = self.samples.iter().filter(|sample| self.suffix_of(sample) == Some(suffix));
        samples.map(|sample| (sample.attributes.clone(), sample.value)).collect()
    }

    fn suffix_of<'s>(&self, sample: &Sample<'s>) -> Option<&'s str> {
        sample.name.strip_prefix(self.name)
    }

    fn histograms(&self) -> Vec<(MetricAttributes, HistogramCounts)> {
        let mut histograms: BTreeMap<MetricAttributes, HistogramCounts> = BTreeMap::new();
        for sample in &self.samples {
            let mut attributes = sample.attributes.clone();
            let bound = attributes.remove("le");
            match self.suffix_of(sample) {
                Some("_sum") => histograms.entry(attributes).or_default().sum = sample.value,
                Some("_bucket") => {
                    let counts = histograms.entry(attributes).or_default();
                    // Each line counts the values of the buckets before it, too.
                    let before: u64 = counts.counts.iter().sum();
                    counts.counts.push(to_count(sample.value).saturating_sub(before));
                    let bound = bound.and_then(|bound| bound.parse().ok());
                    counts.bounds.extend(bound.filter(|bound: &f64| bound.is_finite()));
                }
                _ => {}
            }
        }
        histograms.into_iter().collect()
    }
}

/// Counts are written as whole numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count is whole and not negative"
)]
fn to_count(value: f64) -> u64 {
    value as u64
}

fn read_sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (attributes, rest) = match rest.strip_prefix('{') {
        Some(labels) => read_labels(labels)?,
        None => (MetricAttributes::new(), rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { name, attributes, value })
}

/// Reads labels up to their closing brace. Returns the rest of the line, too.
fn read_labels(mut rest: &str) -> Option<(MetricAttributes, &str)> {
    let mut attributes = MetricAttributes::new();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((attributes, after));
        }
        let (name, after) = rest.strip_prefix(',').unwrap_or(rest).split_once("=\"")?;
        let (value, after) = read_quoted(after)?;
        let is_named = |dimension: &&&str| replace_dots(dimension) == name;
        let name = METRIC_DIMENSIONS.iter().find(is_named).copied().unwrap_or(name);
        attributes.insert(name.to_owned(), value);
        rest = after;
    }
}

/// Reads a text up to its closing quote.
fn read_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::registry::{Registry, Unit};

    use super::*;

    fn attributes(of: &[(&str, &str)]) -> MetricAttributes {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_values_are_those_that_were_counted() {
        let mut registry = Registry::with_prefix("p");
        let counted: Family<[(&str, String); 2], Counter> = Family::default();
        registry.register("requests", "Requests", counted.clone());
        let odd = "a \"quoted\" \\ value, with }\nand a line".to_owned();
        counted.get_or_create(&[("of", odd.clone()), ("status", "200".into())]).inc_by(3);
        counted.get_or_create(&[("of", String::new()), ("status", "404".into())]).inc();
        let open: Gauge = Gauge::default();
        registry.register("open", "What is open", open.clone());
        open.set(-7);
        let took = Histogram::new([0.5, 1.0]);
        registry.register_with_unit("took", "Times", Unit::Seconds, took.clone());
        [0.25, 0.5, 0.75, 5.0].into_iter().for_each(|value| took.observe(value));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();

        let mut read = read_families(&text);
        if let MetricValues::Counter(values) = &mut read[0].values {
            values.sort_by(|one, other| one.1.total_cmp(&other.1));
        }
        let family = |name: &str, description: &str, unit: &str, values| MetricFamily {
            name: name.to_owned(),
            description: description.to_owned(),
            unit: unit.to_owned(),
            values,
        };
        let counts = HistogramCounts { bounds: vec![0.5, 1.0], counts: vec![2, 1, 1], sum: 6.5 };
        let requests = vec![
            (attributes(&[("of", ""), ("status", "404")]), 1.0),
            (attributes(&[("of", &odd), ("status", "200")]), 3.0),
        ];
        let expected = [
            family("p_requests", "Requests", "", MetricValues::Counter(requests)),
            family("p_open", "What is open", "", MetricValues::Gauge(vec![(attributes(&[]), -7.0)])),
            family("p_took_seconds", "Times", "s", MetricValues::Histogram(vec![(attributes(&[]), counts)])),
        ];
        assert_eq!(read, expected);
    }
}
