//! `version`: the versions of the plugin, the controller and the hub.

use serde_json::json;

use crate::args::{Common, VersionArgs};
use crate::check::facts::{CONTROLLER, DEPLOYMENT, LEASE};
use crate::check::{skew, version_of, version_of_leader};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::hub::any::is_simulated;
use crate::render::objects::machine;
use crate::screen::Screen;

/// Version of this plugin.
const PLUGIN: &str = env!("CARGO_PKG_VERSION");

pub(super) async fn run(common: &Common, args: &VersionArgs, screen: Screen) -> Result<Exit, Failure> {
    if args.client {
        screen.print(&client(common));
        return Ok(Exit::Done);
    }
    let reached = async {
        let hub = Hub::connect(common).await?;
        let version = hub.version().await?.git_version;
        Ok::<_, Failure>((hub, version))
    };
    let (hub, kubernetes) = match reached.await {
        Ok(reached) => reached,
        Err(failure) => {
            // As kubectl does, it tells its own version all the same.
            screen.print(&client(common));
            return Err(failure);
        }
    };
    let namespace = Some(args.controller_namespace.as_str());
    // Many users may not read the controller's namespace.
    let deployment = hub.object(DEPLOYMENT, namespace, CONTROLLER).await;
    let is_installed = matches!(deployment, Ok(Some(_)));
    let lease = hub.object(LEASE, namespace, CONTROLLER).await.ok().flatten();
    let leader = lease.as_ref().and_then(version_of_leader);
    let controller = match (leader, deployment) {
        (Some(version), _) => Ok(version),
        (None, Ok(Some(deployment))) => version_of(&deployment),
        _ if is_simulated(&kubernetes) => Err("a simulated hub runs no Deployments".to_owned()),
        (None, Ok(None)) => Err(format!(
            "namespace {} has no Deployment {CONTROLLER}",
            args.controller_namespace
        )),
        (None, Err(failure)) => Err(failure.sentence()),
    };
    let (controller, why) = match controller {
        Ok(version) => (Some(version), String::new()),
        Err(why) => (None, why),
    };
    let skew = controller
        .as_deref()
        .and_then(|controller| skew(PLUGIN, controller));
    let value =
        || json!({"client": PLUGIN, "controller": controller, "kubernetes": kubernetes, "skew": skew});
    let text = machine(common.output, value).unwrap_or_else(|| {
        let controller = controller.clone().unwrap_or_else(|| format!("unknown ({why})"));
        format!("Client:     {PLUGIN}\nController: {controller}\nKubernetes: {kubernetes}\n")
    });
    screen.print(&text);
    if let Some(skew) = &skew {
        screen.note(&format!("Warning: {skew}\n"));
    } else if is_installed && controller.is_none() {
        screen.note("Warning: whether the plugin and the controller fit together is not known\n");
    }
    Ok(Exit::Done)
}

/// The version of the plugin alone.
fn client(common: &Common) -> String {
    let text = machine(common.output, || json!({"client": PLUGIN}));
    text.unwrap_or_else(|| format!("Client: {PLUGIN}\n"))
}
