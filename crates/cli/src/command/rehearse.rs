//! `rehearse` and `plan`: each reads the hub or a directory, and prints what an upgrade would do.

use std::path::Path;

use api::message::count;
use api::views::{self, Upgrade as UpgradeView};
use chrono::{DateTime, TimeDelta, Utc};
use observe::record::{ReportRelation, relation_of};
use resolve::lists::{HubLists, ListKind, ListedPage};
use resolve::snapshot::{ControllerSettings, NoPlan, Snapshot};
use rollout::forecast::OtherTimes;
use serde_json::{Value, json};

use crate::args::{Common, PlanArgs, RehearseArgs, UnknownFields};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::lint::{Linter, Report, documents, output};
use crate::rehearse::durations::{self, FileTimes};
use crate::rehearse::files::{self, About, Pages};
use crate::rehearse::outcome::{Source, Verdict};
use crate::rehearse::plan::PlanRequest;
use crate::rehearse::{NoRehearsal, Request, rehearse};
use crate::render;
use crate::screen::Screen;
use crate::table::one_line;
use crate::upgrade;

/// UID of an upgrade that is not applied yet.
const NEW_UID: &str = "not-applied-yet";

pub(super) async fn run(common: &Common, args: &RehearseArgs, screen: Screen) -> Result<Exit, Failure> {
    let file_times = times_of(args.durations.as_deref())?;
    if let Some(directory) = &args.save {
        files::check_target(directory)?;
    }
    let asked = Asked {
        name: args.name.as_deref(),
        file: args.file.as_deref(),
        from: args.from.as_deref(),
    };
    let Some(prepared) = prepare(common, asked, screen).await? else {
        return Ok(Exit::Error);
    };
    let Prepared {
        read,
        subject,
        lists,
        uid,
    } = prepared;
    let (namespace, name) = (subject.namespace.as_str(), subject.name.as_str());
    if let Some(directory) = &args.save {
        let kept = (namespace, name);
        let times = durations::to_yaml(&lists.reports, (namespace, name, &uid), &file_times);
        let left_out = files::save(directory, &read.pages, read.about.read_at, kept, &times)?;
        note_left_out(left_out, "saved", screen);
    }
    note_left_out(lists.nameless, "read", screen);
    let reports = reports_of_others(&lists, &subject, &uid);
    let mut snapshot = Snapshot::new(lists, ControllerSettings::default(), read.about.read_at);
    let request = Request {
        namespace,
        name,
        uid: &uid,
        now: read.about.read_at,
        source: subject.source(),
        others: OtherTimes {
            given: &|kind| durations::given(&file_times, kind),
            hub: &|kind| durations::of_hub(&reports, kind),
            ..OtherTimes::NONE
        },
        failure_rate: args.failure_rate,
    };
    match rehearse(&mut snapshot, &request) {
        Ok(rehearsal) => {
            screen.print(&render::rehearse::render(&rehearsal, common.output, screen.paint));
            Ok(exit_of(rehearsal.verdict))
        }
        Err(refusal) => refused(refusal, (namespace, name), screen),
    }
}

/// Plans an upgrade: the same reading of the hub, and nothing assumed.
pub(super) async fn plan(common: &Common, args: &PlanArgs, screen: Screen) -> Result<Exit, Failure> {
    let file_times = times_of(args.durations.as_deref())?;
    let asked = Asked {
        name: args.name.as_deref(),
        file: args.file.as_deref(),
        from: args.from.as_deref(),
    };
    let Some(prepared) = prepare(common, asked, screen).await? else {
        return Ok(Exit::Error);
    };
    let Prepared {
        read,
        subject,
        lists,
        uid,
    } = prepared;
    let (namespace, name) = (subject.namespace.as_str(), subject.name.as_str());
    note_left_out(lists.nameless, "read", screen);
    let reports = reports_of_others(&lists, &subject, &uid);
    let mut snapshot = Snapshot::new(lists, ControllerSettings::default(), read.about.read_at);
    let request = PlanRequest {
        namespace,
        name,
        uid: &uid,
        now: read.about.read_at,
        source: subject.source(),
        others: OtherTimes {
            given: &|kind| durations::given(&file_times, kind),
            hub: &|kind| durations::of_hub(&reports, kind),
            ..OtherTimes::NONE
        },
    };
    match crate::rehearse::plan::plan(&mut snapshot, request) {
        Ok(plan) => {
            screen.print(&render::plan::render(&plan, common.output, screen.paint));
            Ok(exit_of(plan.verdict))
        }
        Err(refusal) => refused(refusal, (namespace, name), screen),
    }
}

/// The reports of the other upgrades. Those of the upgrade itself are in its records.
fn reports_of_others(lists: &HubLists, subject: &Subject, uid: &str) -> Vec<views::Report> {
    let is_other = |report: &&views::Report| {
        relation_of(report, &subject.namespace, &subject.name, uid) != ReportRelation::Own
    };
    lists.reports.iter().filter(is_other).cloned().collect()
}

fn times_of(file: Option<&Path>) -> Result<FileTimes, Failure> {
    match file {
        Some(file) => FileTimes::read(&read(file)?).map_err(|error| named(file, &error)),
        None => Ok(FileTimes::default()),
    }
}

/// Which upgrade is asked for, and where the hub is read.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) file: Option<&'a Path>,
    pub(super) from: Option<&'a Path>,
}

/// The hub as it was read, with the upgrade in its place.
pub(super) struct Prepared {
    pub(super) read: ReadHub,
    pub(super) subject: Subject,
    pub(super) lists: HubLists,
    pub(super) uid: String,
}

/// Reads the hub or a directory. `None` if the file has errors, which are printed.
pub(super) async fn prepare(
    common: &Common,
    asked: Asked<'_>,
    screen: Screen,
) -> Result<Option<Prepared>, Failure> {
    if common.all_namespaces {
        return Err(Failure::Other(
            "a rehearsal or a plan is about one upgrade, so -A cannot be used; give its namespace with -n"
                .to_owned(),
        ));
    }
    let manifest = match asked.file {
        Some(file) => match manifest(common, file, screen)? {
            Some(manifest) => Some(manifest),
            None => return Ok(None),
        },
        None => None,
    };
    let read = match asked.from {
        Some(directory) => from_directory(directory)?,
        None => from_hub(common).await?,
    };
    let (manifest, bindings) =
        manifest.map_or((None, Vec::new()), |given| (Some(given.upgrade), given.bindings));
    let subject = Subject::choose(common, asked.name, manifest, &read)?;
    if let Some(manifest) = &subject.manifest
        && let Some(stored) = read.pages.upgrade(&subject.namespace, &subject.name)
    {
        screen.note(&not_in_file(manifest, &stored));
    }
    let mut lists = read.pages.lists()?;
    let uid = subject.put(&mut lists, &read)?;
    bind(&mut lists, bindings, &subject.namespace)?;
    Ok(Some(Prepared {
        read,
        subject,
        lists,
        uid,
    }))
}

/// What is said when there is nothing to rehearse.
pub(super) fn refused(
    refusal: NoRehearsal,
    (namespace, name): (&str, &str),
    screen: Screen,
) -> Result<Exit, Failure> {
    match refusal {
        NoRehearsal::NoPlan(NoPlan::CompletedBefore(completed)) => {
            screen.note(&format!(
                "{namespace}/{name} was complete at {} before it was restored from a backup, so the controller starts no cluster.\n",
                api::time::to_rfc3339(completed.time)
            ));
            Ok(Exit::Done)
        }
        refusal => Err(explained(refusal, namespace, name)),
    }
}

const fn exit_of(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Completes => Exit::Done,
        Verdict::Stalls | Verdict::Waits => Exit::Stalled,
    }
}

fn explained(refusal: NoRehearsal, namespace: &str, name: &str) -> Failure {
    match refusal {
        NoRehearsal::NoPlan(NoPlan::Deleting) => Failure::Other(format!(
            "upgrade {namespace}/{name} is being deleted, so it starts no cluster"
        )),
        NoRehearsal::NoPlan(NoPlan::Invalid(violations)) => {
            let violations: Vec<String> = violations
                .iter()
                .map(|violation| format!("* {}", one_line(&violation.to_string())))
                .collect();
            Failure::Other(format!(
                "the spec of upgrade {namespace}/{name} is invalid, so it starts no cluster:\n{}",
                violations.join("\n")
            ))
        }
        NoRehearsal::NoPlan(NoPlan::Unknown | NoPlan::CompletedBefore(_)) => {
            Failure::not_found(upgrade::PLURAL, name)
        }
        NoRehearsal::Defect(text) => Failure::Other(format!(
            "internal error: the rehearsal cannot be played. Please report this bug: {text}"
        )),
    }
}

fn note_left_out(left_out: usize, what: &str, screen: Screen) {
    if left_out > 0 {
        screen.note(&format!(
            "Warning: {} could not be {what} and {} left out.\n",
            count(left_out, "object"),
            if left_out == 1 { "is" } else { "are" }
        ));
    }
}

fn named(file: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Other(format!("{}: {error}", file.display()))
}

/// The text of a file, or of standard input for `-`.
fn read(file: &Path) -> Result<String, Failure> {
    if file == Path::new("-") {
        return files::read_text(std::io::stdin(), files::MAX_FILE)
            .map_err(|error| Failure::Other(format!("standard input: {error}")));
    }
    files::read_file(file, files::MAX_FILE).map_err(|error| named(file, &error))
}

/// What a file asks for.
struct Manifest {
    /// The upgrade, as the API server would store it.
    upgrade: Value,
    /// The `ManagedClusterSetBindings` that would be applied with it.
    bindings: Vec<Value>,
}

/// The upgrade of a file and its bindings. `None` if it has errors, which are printed.
fn manifest(common: &Common, file: &Path, screen: Screen) -> Result<Option<Manifest>, Failure> {
    let linter = Linter::new(UnknownFields::Strict, common.namespace.clone());
    let text = read(file)?;
    let mut report = Report::default();
    linter.lint(&file.display().to_string(), &text, &mut report);
    if !report.is_good() {
        screen.note(&output::text(&report));
        return Ok(None);
    }
    let [place] = &report.checked[..] else {
        return Err(named(
            file,
            &format!(
                "there are {} ManagedClustersUpgrades; give a file with one",
                report.checked.len()
            ),
        ));
    };
    let values = documents::split(&text).into_iter();
    let objects = values.filter_map(|document| document.value.ok());
    let objects: Vec<Value> = objects.flat_map(documents::items).collect();
    let object = objects.iter().find(|object| {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        object["kind"] == "ManagedClustersUpgrade" && name.unwrap_or_default() == place.name
    });
    let object = object.ok_or_else(|| named(file, &"the upgrade cannot be found"))?;
    if place.name.is_empty() {
        return Err(named(
            file,
            &"metadata.name: must be set, because the rehearsal needs a name",
        ));
    }
    let is_binding = |object: &&Value| object["kind"] == *ListKind::Bindings.kind();
    Ok(Some(Manifest {
        upgrade: linter.stored(object),
        bindings: objects.iter().filter(is_binding).cloned().collect(),
    }))
}

/// Adds the bindings of a file, in this namespace if they name none.
fn bind(lists: &mut HubLists, mut bindings: Vec<Value>, namespace: &str) -> Result<(), Failure> {
    for binding in &mut bindings {
        if let Some(metadata) = binding.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.entry("namespace").or_insert_with(|| json!(namespace));
        }
    }
    let text = json!({"items": bindings}).to_string();
    let page = ListedPage::read(&text).map_err(Failure::Other)?;
    lists.add(ListKind::Bindings, &page);
    Ok(())
}

/// What was read of the hub.
pub(super) struct ReadHub {
    pub(super) about: About,
    pages: Pages,
    /// Where from, for messages.
    from_directory: Option<String>,
}

fn from_directory(directory: &Path) -> Result<ReadHub, Failure> {
    let (about, pages) = files::load(directory)?;
    Ok(ReadHub {
        about,
        pages,
        from_directory: Some(directory.display().to_string()),
    })
}

/// Reads all lists. If some are forbidden, all of them are named.
async fn from_hub(common: &Common) -> Result<ReadHub, Failure> {
    let hub = Hub::connect(common).await?;
    let read_at = whole_second(Utc::now());
    let mut pages = Pages::default();
    let mut forbidden = Vec::new();
    for kind in ListKind::ALL {
        let mut token = None;
        loop {
            let page = match hub.list_page(kind, token.as_deref()).await {
                Err(Failure::Server { reason, message }) if reason == "Forbidden" => {
                    forbidden.push((kind, message));
                    break;
                }
                page => page?,
            };
            token = ListedPage::read(&page)
                .map_err(|error| {
                    Failure::Other(format!("the list of {} cannot be read: {error}", kind.plural()))
                })?
                .token()
                .map(str::to_owned);
            pages.push(kind, page);
            if token.is_none() {
                break;
            }
        }
    }
    if !forbidden.is_empty() {
        return Err(missing_rights(&forbidden));
    }
    let about = About {
        read_at,
        namespace: hub.namespace().to_owned(),
        without_actions: std::collections::BTreeSet::new(),
    };
    Ok(ReadHub {
        about,
        pages,
        from_directory: None,
    })
}

fn whole_second(time: DateTime<Utc>) -> DateTime<Utc> {
    time - TimeDelta::nanoseconds(time.timestamp_subsec_nanos().into())
}

fn missing_rights(forbidden: &[(ListKind, String)]) -> Failure {
    let rights: Vec<String> = forbidden
        .iter()
        .map(|(kind, _)| format!("* list {}.{} in all namespaces", kind.plural(), kind.group()))
        .collect();
    Failure::Other(format!(
        "a rehearsal reads the whole hub, and you may not:\n{}\nAsk for the ClusterRole mcu-rehearser, or ask somebody who has it for a directory (kubectl mcu rehearse NAME --save DIR) and use --from DIR",
        rights.join("\n")
    ))
}

/// The upgrade to rehearse.
pub(super) struct Subject {
    pub(super) namespace: String,
    pub(super) name: String,
    manifest: Option<Value>,
}

impl Subject {
    fn choose(
        common: &Common,
        name: Option<&str>,
        manifest: Option<Value>,
        read: &ReadHub,
    ) -> Result<Subject, Failure> {
        let flag = common
            .namespace
            .as_deref()
            .filter(|namespace| !namespace.is_empty());
        let text = |value: &Value, key: &str| value["metadata"][key].as_str().map(str::to_owned);
        let given = manifest.as_ref().and_then(|manifest| text(manifest, "namespace"));
        if let (Some(flag), Some(given)) = (flag, &given)
            && flag != given
        {
            return Err(Failure::Other(format!(
                "the namespace of the file {given:?} does not match the namespace {flag:?} of -n"
            )));
        }
        let namespace = given
            .or_else(|| flag.map(str::to_owned))
            .unwrap_or_else(|| read.about.namespace.clone());
        let name = manifest
            .as_ref()
            .and_then(|manifest| text(manifest, "name"))
            .or_else(|| name.map(str::to_owned))
            .unwrap_or_default();
        let key = format!("{namespace}/{name}");
        if let Some(directory) = &read.from_directory
            && manifest.is_none()
            && read.about.without_actions.contains(&key)
        {
            return Err(Failure::Other(format!(
                "{directory} was saved without the actions of {key}; save it again with kubectl mcu rehearse {name} -n {namespace} --save, or give its manifest with -f"
            )));
        }
        Ok(Subject {
            namespace,
            name,
            manifest,
        })
    }

    const fn source(&self) -> Source {
        if self.manifest.is_some() {
            Source::File
        } else {
            Source::Hub
        }
    }

    /// Puts the manifest, if there is one, in the place of the object on the hub, as `kubectl apply` would. Returns the UID
    /// of the upgrade.
    fn put(&self, lists: &mut HubLists, read: &ReadHub) -> Result<String, Failure> {
        let is_it = |upgrade: &UpgradeView| {
            let meta = &upgrade.metadata;
            meta.namespace.as_deref() == Some(&*self.namespace) && meta.name.as_deref() == Some(&*self.name)
        };
        let stored = read.pages.upgrade(&self.namespace, &self.name);
        let object = match (&self.manifest, stored) {
            (None, _) => {
                let found = lists.upgrades.iter().find(|upgrade| is_it(upgrade));
                let uid = found.and_then(|upgrade| upgrade.metadata.uid.clone());
                return uid.ok_or_else(|| self.not_found(read));
            }
            (Some(manifest), Some(stored)) => applied(manifest, stored),
            (Some(manifest), None) => created(manifest, &self.namespace, read.about.read_at),
        };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let object: UpgradeView = serde_json::from_value(object)
            .map_err(|error| Failure::Other(format!("the upgrade cannot be read: {error}")))?;
        let at = lists.upgrades.iter().position(is_it);
        lists.replaced = at.map(|at| lists.upgrades.remove(at));
        lists.upgrades.push(object);
        Ok(uid)
    }

    /// The failure for an upgrade that the hub or the directory does not have.
    fn not_found(&self, read: &ReadHub) -> Failure {
        let (namespace, name) = (&self.namespace, &self.name);
        match &read.from_directory {
            None => Failure::not_found(upgrade::PLURAL, name),
            Some(directory) => Failure::Other(format!(
                "{directory} has no upgrade {namespace}/{name}; check the name and the namespace (-n), or give its manifest with -f"
            )),
        }
    }
}

/// The object that the hub would hold if a new manifest were applied.
fn created(manifest: &Value, namespace: &str, now: DateTime<Utc>) -> Value {
    let mut object = manifest.clone();
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["uid"] = json!(NEW_UID);
    object["metadata"]["generation"] = json!(1);
    object["metadata"]["creationTimestamp"] = json!(api::time::to_rfc3339(now));
    object
}

/// Fields of the spec that commands of the plugin set.
const SET_BY_COMMANDS: [&str; 6] = [
    "paused",
    "upgradeStrategy.skip",
    "upgradeStrategy.abort",
    "upgradeStrategy.retry",
    "clusterVersion.acceptRisks",
    "clusterVersion.adminAcks",
];

/// What is said of such fields that the hub has and the file does not: `kubectl apply` keeps those that no applied file had, and
/// [`applied`] does not. Empty if there are none.
fn not_in_file(manifest: &Value, stored: &Value) -> String {
    let value = |object: &Value, field: &str| {
        let pointer = format!("/spec/{}", field.replace('.', "/"));
        object.pointer(&pointer).cloned().unwrap_or(Value::Null)
    };
    let is_set = |value: &Value| match value {
        Value::Bool(is_true) => *is_true,
        Value::Array(entries) => !entries.is_empty(),
        _ => false,
    };
    let fields = SET_BY_COMMANDS.into_iter();
    let fields = fields.filter(|field| value(manifest, field).is_null() && is_set(&value(stored, field)));
    let fields: Vec<String> = fields.map(|field| format!("spec.{field}")).collect();
    if fields.is_empty() {
        return String::new();
    }
    format!(
        "Warning: on the hub the upgrade has {}, which the file does not set. kubectl apply keeps what a command such as kubectl mcu skip or pause has set; here it counts as removed. Add it to the file if it is to count.\n",
        fields.join(", ")
    )
}

/// The object that the hub would hold if the manifest were applied to it and the file had set every field before.
fn applied(manifest: &Value, mut stored: Value) -> Value {
    let generation = stored["metadata"]["generation"].as_i64().unwrap_or(1);
    let edited = stored["spec"] != manifest["spec"];
    stored["metadata"]["generation"] = json!(generation + i64::from(edited));
    stored["spec"] = manifest["spec"].clone();
    for (key, value) in manifest["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flatten()
    {
        if !stored["metadata"]["annotations"].is_object() {
            stored["metadata"]["annotations"] = json!({});
        }
        stored["metadata"]["annotations"][key] = value.clone();
    }
    stored
}

#[cfg(test)]
mod tests;
