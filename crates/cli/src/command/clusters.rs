//! `clusters`: lists the clusters of an upgrade, and with `-w` every row that changes.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use api::report::ReportRow;
use chrono::Utc;
use serde_json::Value;

use super::show::{note_gaps, print};
use crate::args::{ClustersArgs, Common, Output};
use crate::dashboard::feed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render;
use crate::render::clusters::render_more;
use crate::render::objects::without_headers;
use crate::screen::Screen;
use crate::template::Path;
use crate::upgrade::Upgrade;

pub(super) async fn run(common: &Common, args: &ClustersArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let named = match &args.selector {
        Some(selector) => Some(hub.clusters_with(selector).await?),
        None => None,
    };
    let filter = Filter { args, named };
    // A watch reads them again; but what the hub refuses is known before it begins.
    let rows = hub.rows(&upgrade).await?;
    note_gaps(&upgrade, &rows, screen);
    if args.watch {
        return follow(common, &hub, &upgrade, &filter, screen).await;
    }
    let mut shown: Vec<&ReportRow> = rows.rows.iter().filter(|row| filter.admits(row)).collect();
    if let Some(path) = &args.sort_by {
        sort(&mut shown, path)?;
    }
    if shown.is_empty() && Output::is_for_humans(common.output) {
        let none = render::clusters::none_found(&args.name, hub.namespace(), &args.phases, filter.narrows());
        screen.note(&none);
    } else {
        let text = render::clusters::render(&shown, common.output, Utc::now(), screen.paint);
        print(common, &text, screen);
    }
    Ok(Exit::Done)
}

/// Which rows are shown.
struct Filter<'a> {
    args: &'a ClustersArgs,
    /// The clusters with the labels asked for. `None` if none were asked for.
    named: Option<BTreeSet<String>>,
}

impl Filter<'_> {
    fn admits(&self, row: &ReportRow) -> bool {
        let args = self.args;
        (args.phases.is_empty() || args.phases.contains(&row.phase))
            && (args.reasons.is_empty()
                || args
                    .reasons
                    .iter()
                    .any(|reason| reason.eq_ignore_ascii_case(&row.reason)))
            && self
                .named
                .as_ref()
                .is_none_or(|named| named.contains(&row.cluster))
    }

    /// True if it asks for more than phases.
    fn narrows(&self) -> bool {
        self.named.is_some() || !self.args.reasons.is_empty()
    }
}

/// Sorts by a field of the rows. Numbers are compared as numbers, and rows without the field come first, as in kubectl. If none has
/// it, that is an error, as in kubectl.
fn sort(rows: &mut [&ReportRow], path: &Path) -> Result<(), Failure> {
    let key = |row: &&ReportRow| {
        let row = serde_json::to_value(row).unwrap_or_default();
        path.find(&row, &row).first().map(|value| (*value).clone())
    };
    let mut keyed: Vec<(Key, &ReportRow)> = rows.iter().map(|row| (Key(key(row)), *row)).collect();
    if !keyed.is_empty() && keyed.iter().all(|(key, _)| key.0.is_none()) {
        return Err(Failure::Other(format!(
            "couldn't find any field with path \"{path}\" in the list of clusters; -o json shows the fields of each"
        )));
    }
    keyed.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (place, (_, row)) in rows.iter_mut().zip(keyed) {
        *place = row;
    }
    Ok(())
}

struct Key(Option<Value>);

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        match (&self.0, &other.0) {
            (Some(Value::Number(a)), Some(Value::Number(b))) => a
                .as_f64()
                .unwrap_or_default()
                .total_cmp(&b.as_f64().unwrap_or_default()),
            (Some(Value::String(a)), Some(Value::String(b))) => a.cmp(b),
            (a, b) => a
                .as_ref()
                .map(Value::to_string)
                .cmp(&b.as_ref().map(Value::to_string)),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// Prints the rows, and then each one that changes, until Ctrl-C.
async fn follow(
    common: &Common,
    hub: &Hub,
    upgrade: &Upgrade,
    filter: &Filter<'_>,
    screen: Screen,
) -> Result<Exit, Failure> {
    let fleet = feed::fleet(hub, upgrade);
    let mut changes = fleet.changes();
    let (mut shown, mut warned, mut widths) = (0, false, Vec::new());
    let mut headers = !common.no_headers;
    loop {
        let trouble = fleet.trouble();
        if !trouble.is_empty() && !warned {
            screen.note(&format!("Warning: {trouble}; retrying\n"));
        }
        warned = !trouble.is_empty();
        let news = fleet.read(|fleet| {
            if !fleet.is_complete() {
                return None;
            }
            let newer = fleet.since(shown).rows;
            let newer: Vec<&ReportRow> = newer.into_iter().filter(|row| filter.admits(row)).collect();
            let text = (!newer.is_empty()).then(|| {
                let text = render_more(&newer, common.output, Utc::now(), screen.paint, &mut widths);
                if common.output == Some(Output::Yaml) {
                    format!("---\n{text}")
                } else {
                    text
                }
            });
            Some((fleet.revision(), text))
        });
        if let Some((revision, text)) = news {
            if let Some(text) = text {
                let text = if std::mem::take(&mut headers) {
                    &text
                } else {
                    without_headers(common.output, &text)
                };
                if !screen.deliver(text) {
                    return Ok(Exit::Error);
                }
            }
            shown = revision;
        }
        tokio::select! {
            news = changes.changed() => if news.is_err() {
                return Err(Failure::Unreachable("the watch ended".to_owned()));
            },
            _ = tokio::signal::ctrl_c() => return Err(Failure::Interrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::rows;

    #[test]
    fn rows_are_sorted_by_any_field_and_those_without_it_come_first() {
        let rows = rows();
        let sorted = |path: &str| {
            let mut shown: Vec<&ReportRow> = rows.rows.iter().collect();
            sort(&mut shown, &Path::read(path).unwrap()).unwrap();
            let names: Vec<&str> = shown.iter().map(|row| row.cluster.as_str()).collect();
            names.join(" ")
        };
        assert_eq!(sorted(".since"), "edge-20 edge-01 edge-17 edge-02");
        assert_eq!(sorted("{.toVersion}"), "edge-20 edge-01 edge-02 edge-17");
    }

    #[test]
    fn a_field_that_no_row_has_is_an_error_that_says_where_the_fields_are() {
        let rows = rows();
        let mut shown: Vec<&ReportRow> = rows.rows.iter().collect();
        let error = sort(&mut shown, &Path::read("{.sinze}").unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "error: couldn't find any field with path \"{.sinze}\" in the list of clusters; -o json shows the fields of each"
        );
        sort(&mut [], &Path::read(".sinze").unwrap()).unwrap();
    }
}
