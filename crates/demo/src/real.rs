//! The real hub: etcd, kube-apiserver, OCM's placement controller, and the controller with the account that `deploy/` ships. The
//! clusters behind their work agents are simulated.

use anyhow::{Context as _, Result, bail};
use e2e::audit::{AuditLog, measures};
use e2e::testbed::{self, CONTROLLER_USER};
use repository::{Profile, Programs};
use testenv::detached::{self, Record};
use testenv::placement;
use testenv::{Assets, Controllers, Hub, Tool, stderr_progress};

use super::fixtures::{Fixtures, NAMESPACE, PLACEMENT, REFUSAL};
use super::narrator::Narrator;
use super::picture::Picture;
use super::story::{self, PART_TIMEOUT, Stage};
use super::summary::{Requests, Summary};
use super::{DemoArgs, Kept};

const CONTROLLER: &str = "mcu-controller";
/// Simulated over real time: a minute is a second.
const TIME_SCALE: &str = "--time-scale=0.0166667";
/// An update of the platform takes three seconds.
const UPDATE: &str = "--update-duration=3m";

/// Shows the demo on a real hub. A hub that is kept is detached, so nothing is returned.
pub(super) async fn show(args: &DemoArgs) -> Result<Option<Kept>> {
    if args.keep
        && let Some(record) = Record::load()?
    {
        bail!(
            "a hub runs already, KUBECONFIG={}; stop it with cargo xtask hub down",
            record.kubeconfig.display()
        );
    }
    eprintln!("building the programs");
    let programs = Programs::build(Profile::own())?;
    let assets = Assets::locate_or_build(&stderr_progress).await?;
    let fixtures = Fixtures::new(args.clusters);
    let mut narrator = Narrator::new();
    let hub = prepare(&mut narrator, assets, &fixtures, &programs, args.keep).await?;
    let stage = Stage {
        client: hub.client().clone(),
        fixtures,
        picture: Picture {
            kubeconfig: (!args.json).then(|| hub.kubeconfig_path()),
        },
        log: hub.dir().join(format!("{CONTROLLER}.log")),
    };
    let ended = Box::pin(story::run(&mut narrator, &stage)).await;
    let shown = ended.and_then(|end| {
        let requests = requests(&hub)?;
        Ok(Summary::new(
            "real kube-apiserver",
            &stage.fixtures,
            &end,
            requests,
        ))
    });
    if !args.keep {
        hub.stop().await?;
        super::finish(args, &shown?)?;
        return Ok(None);
    }
    // Also after a failure: a user who keeps the hub wants to inspect it.
    if let Ok(summary) = &shown {
        super::finish(args, summary)?;
    }
    let kubectl = hub.assets().path(Tool::Kubectl);
    let tools = kubectl.parent();
    let tools = tools.map(|dir| dir.display().to_string()).unwrap_or_default();
    let path = format!("{tools}:{}", programs.dir().display());
    eprintln!(
        "\nThe real hub stays. To look around:\n{}\n\nLogs are in {}\nTo stop it: cargo xtask hub down",
        stage.fixtures.commands(&hub.kubeconfig_path(), &path),
        hub.dir().display(),
    );
    shown.map(|_| None)
}

/// Stops a hub that would be kept.
pub(super) async fn clean_up() -> Result<()> {
    detached::down().await.map(drop)
}

/// Starts the hub with everything on it.
async fn prepare(
    narrator: &mut Narrator,
    assets: Assets,
    fixtures: &Fixtures,
    programs: &Programs,
    keep: bool,
) -> Result<Hub> {
    narrator.say(
        "starting a REAL hub: etcd, kube-apiserver, kube-controller-manager, OCM's placement controller",
    );
    let mut builder = Hub::builder()
        .assets(assets)
        .controller_manager(Controllers::collectors())
        .placement()
        .audit();
    if keep {
        builder = builder.detached();
    }
    let hub = testbed::with_agents(builder).start().await?;
    narrator.say("installing deploy/: CRDs, RBAC, admission policy");
    testbed::deploy(&hub).await?;
    fixtures.fleet().create(hub.client()).await?;
    story::set_fault(hub.client(), &fixtures.refusing, Some(REFUSAL)).await?;
    let flags = [TIME_SCALE, UPDATE].map(str::to_owned);
    testbed::agents(&hub, programs, &flags).await?;
    narrator.say(&fixtures.introduction());
    placement::wait_decided(hub.client(), NAMESPACE, PLACEMENT, fixtures.len(), PART_TIMEOUT).await?;
    narrator.say(&format!("Placement {PLACEMENT} has decided for all of them"));
    testbed::controller(&hub, programs, CONTROLLER, &[]).await?;
    narrator.say("mcu-controller is ready, with the ServiceAccount of deploy/");
    Ok(hub)
}

/// The controller's requests in the audit log.
fn requests(hub: &Hub) -> Result<Requests> {
    let path = hub.audit_log().context("the hub has no audit log")?;
    let requests = AuditLog::new(path, &[CONTROLLER_USER]).read()?;
    Ok(Requests {
        sent: measures::counts(&requests).iter().map(|count| count.times).sum(),
        wasted: measures::wasted(&requests),
    })
}
