//! `create`: creates an upgrade, or prints its manifest.

use std::time::Duration;

use crate::args::{Common, CreateArgs, DryRun, Output, UnknownFields};
use crate::check::facts::BINDING;
use crate::create::{labels_of_any_value, manifest, unbound};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::lint::{Linter, Report, output};
use crate::render::objects::{self, machine, to_yaml};
use crate::screen::Screen;
use crate::upgrade::TYPE_AND_GROUP;

/// Time limit for the bindings. A manifest is printed without a hub, too, and should not wait for it.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn run(common: &Common, args: &CreateArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await;
    // A manifest can be printed without a hub; its namespace is then that of the flag.
    let namespace = match (&hub, &common.namespace) {
        (Ok(hub), _) => hub.namespace().to_owned(),
        (Err(_), Some(namespace)) => namespace.clone(),
        (Err(_), None) => "default".to_owned(),
    };
    let manifest = manifest(args, &namespace).map_err(Failure::Usage)?;
    let yaml = to_yaml(&manifest);
    let mut report = Report::default();
    Linter::new(UnknownFields::Strict, Some(namespace)).lint(&args.name, &yaml, &mut report);
    if !report.findings.is_empty() {
        screen.note(&output::text(&report));
    }
    if !report.is_good() {
        return Ok(Exit::Error);
    }
    screen.note(&labels_of_any_value(&manifest["spec"]));
    if let Ok(hub) = &hub {
        screen.note(&binding_warning(hub, &args.sets).await);
    }
    if args.dry_run == DryRun::Client {
        let name = || format!("{TYPE_AND_GROUP}/{}\n", args.name);
        let text = match common.output {
            Some(Output::Name) => name(),
            output => machine(output, || manifest.clone()).unwrap_or(yaml),
        };
        screen.print(&text);
        return Ok(Exit::Done);
    }
    let is_dry = args.dry_run == DryRun::Server;
    let created = hub?.create(&manifest, is_dry).await?;
    let text = objects::upgrade(common.output, &created).unwrap_or_else(|| {
        if is_dry {
            to_yaml(&created.object)
        } else {
            format!("{TYPE_AND_GROUP}/{} created\n", created.name)
        }
    });
    screen.print(&text);
    Ok(Exit::Done)
}

/// The warning that sets are not bound. Empty if the hub does not answer in time, or if the user may not read bindings.
async fn binding_warning(hub: &Hub, sets: &[String]) -> String {
    if sets.is_empty() {
        return String::new();
    }
    let bindings = hub.objects(BINDING, Some(hub.namespace()));
    match tokio::time::timeout(TIMEOUT, bindings).await {
        Ok(Ok(bindings)) => unbound(sets, &bindings, hub.namespace()),
        Ok(Err(_)) | Err(_) => String::new(),
    }
}
