//! The series of the controller, from its catalogue.

use std::fmt::Write as _;

use controller::metrics::catalogue::{CATALOGUE, MetricKind, Series};

use super::{cell, table};

pub(super) fn render() -> String {
    let mut text = String::from(
        "# Metrics\n\n`mcu-controller` serves them on `/metrics` of `--listen`, in the OpenMetrics text format. Labels come \
         from closed sets, but for namespace, name and target of upgrades. The number of upgrades with series of their own is limited, \
         and names of clusters are in logs, reports and Events only. How alerts and dashboards use them is in \
         [observability](../design/observability.md).\n\n",
    );
    text.push_str(&table(
        ["Series", "Type", "Labels", "Meaning"],
        CATALOGUE.iter().map(|series| {
            let labels: Vec<String> = series
                .labels
                .iter()
                .map(|label| format!("`{}`", label.name))
                .collect();
            [
                format!("`{}`", series.name),
                kind(series),
                labels.join(", "),
                cell(series.help),
            ]
        }),
    ));
    text.push_str("## Labels\n\n");
    let mut seen: Vec<(&str, &[(&str, &str)])> = Vec::new();
    for series in CATALOGUE {
        for label in series.labels {
            let users: Vec<String> = CATALOGUE
                .iter()
                .filter(|other| other.labels.iter().any(|own| same(own.values, label.values)))
                .map(|other| format!("`{}`", other.name))
                .collect();
            if label.values.is_empty()
                || seen
                    .iter()
                    .any(|(name, values)| *name == label.name && same(values, label.values))
            {
                continue;
            }
            seen.push((label.name, label.values));
            let _ = write!(text, "`{}` of {}:\n\n", label.name, users.join(", "));
            let rows = label
                .values
                .iter()
                .map(|(value, meaning)| [format!("`{value}`"), cell(meaning)]);
            text.push_str(&table(["Value", "Meaning"], rows));
        }
    }
    text
}

fn same(one: &[(&str, &str)], other: &[(&str, &str)]) -> bool {
    one == other
}

fn kind(series: &Series) -> String {
    match series.kind {
        MetricKind::Histogram(bounds) => {
            let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
            format!("histogram ({})", bounds.join(", "))
        }
        kind => kind.as_str().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_and_every_value_of_its_labels_is_there() {
        let text = render();
        for series in CATALOGUE {
            assert!(
                text.contains(&format!("| `{}` |", series.name)),
                "{}",
                series.name
            );
            for (value, _) in series.labels.iter().flat_map(|label| label.values) {
                assert!(text.contains(&format!("| `{value}` |")), "{value}");
            }
        }
    }
}
