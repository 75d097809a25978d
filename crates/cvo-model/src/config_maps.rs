//! What the operator does with the `ConfigMaps` of admin gates and acknowledgments, besides reading them
//! (`docs/design/cvo.md#gates`).

use std::collections::BTreeMap;

use clusterversion::gates::ConfigMap;

/// The keys of acknowledgments that belong to no gate. They have no effect.
pub fn unrecognized<'a>(
    gates: &'a BTreeMap<String, String>,
    acks: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a str> {
    acks.keys()
        .filter(|key| !gates.contains_key(*key))
        .map(String::as_str)
}

/// The data to write if gates of the payload are missing or changed. Other keys stay. `None` if there is nothing to do, or if
/// the `ConfigMap` cannot be read.
#[must_use]
pub fn restored(shipped: &BTreeMap<String, String>, live: &ConfigMap) -> Option<BTreeMap<String, String>> {
    let mut data = match live {
        ConfigMap::Found(data) => data.clone(),
        ConfigMap::Missing => BTreeMap::new(),
        ConfigMap::Unreadable(_) => return None,
    };
    data.extend(shipped.iter().map(|(key, value)| (key.clone(), value.clone())));
    (live.data() != Some(&data)).then_some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn unrecognised_acknowledgments_are_named_and_removed_gates_are_put_back() {
        let gates = map(&[("ack-4.12-a", "A")]);
        let acks = map(&[("ack-4.12-a", "true"), ("ack-4.12-typo", "true")]);
        assert_eq!(unrecognized(&gates, &acks).collect::<Vec<_>>(), ["ack-4.12-typo"]);
        assert_eq!(restored(&gates, &ConfigMap::Missing), Some(gates.clone()));
        assert_eq!(restored(&gates, &ConfigMap::Found(gates.clone())), None);
        assert_eq!(restored(&gates, &ConfigMap::Unreadable("down".to_owned())), None);
        let edited = map(&[("ack-4.12-a", "edited"), ("mine", "x")]);
        assert_eq!(
            restored(&gates, &ConfigMap::Found(edited)),
            Some(map(&[("ack-4.12-a", "A"), ("mine", "x")]))
        );
    }
}
