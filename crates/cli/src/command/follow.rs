//! `status -w`: follows an upgrade until it is Ready or Stalled. A terminal shows a live picture of its clusters; any other output
//! gets one line per change.
//!
//! The hub is watched and never polled. However many changes come, the picture is drawn only a few times a second.

use std::time::Duration;

use api::report::ReportRow;
use chrono::{SecondsFormat, TimeDelta, Utc};
use futures::StreamExt;
use tokio::time::{Instant, sleep_until};

use crate::args::{Common, Output};
use crate::dashboard::feed::{self, Watched};
use crate::dashboard::fleet::Fleet;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render::tree::{self, Picture};
use crate::render::{objects, status};
use crate::screen::{LiveScreen, Resizes, Screen, Size, Stops, interruption};
use crate::upgrade::{PLURAL, Upgrade, Verdict};

/// The shortest time between two frames.
const FRAME: Duration = Duration::from_millis(250);
/// When a frame is due without changes, because the times on it grow.
const TICK: Duration = Duration::from_secs(1);

pub(super) async fn run(
    common: &Common,
    name: &str,
    timeout: TimeDelta,
    screen: Screen,
) -> Result<Exit, Failure> {
    let deadline = timeout
        .to_std()
        .ok()
        .filter(|limit| !limit.is_zero())
        .map(|limit| Instant::now() + limit);
    let hub = Hub::connect(common).await?;
    let first = hub.upgrade(name).await?;
    let mut view = View::new(common.output, screen);
    let ended = watch(&hub, name, first, deadline, &mut view).await;
    view.close(matches!(ended, Ok(_) | Err(Failure::TimedOut(_))));
    ended
}

async fn watch(
    hub: &Hub,
    name: &str,
    first: Upgrade,
    deadline: Option<Instant>,
    view: &mut View,
) -> Result<Exit, Failure> {
    let far = Instant::now() + Duration::from_hours(24 * 3650);
    let (events, mut answers) = hub.follow(name);
    let mut events = std::pin::pin!(events);
    let mut resizes = Resizes::listen();
    // Elsewhere Ctrl-Z stops the program as usual.
    let mut stops = view.is_live().then(Stops::listen).unwrap_or_default();
    let mut interrupted = std::pin::pin!(interruption());
    if let Some(exit) = view.show(first, hub) {
        return Ok(exit);
    }
    loop {
        let (is_live, next_frame) = (view.is_live(), view.next_frame());
        let is_in_trouble = !view.trouble.is_empty();
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Some(upgrade))) => {
                    view.trouble(String::new());
                    if let Some(exit) = view.show(upgrade, hub) {
                        return Ok(exit);
                    }
                }
                Some(Ok(None)) => return Err(Failure::not_found(PLURAL, name)),
                Some(Err(error)) => {
                    answers.forget();
                    view.trouble(error);
                }
                None => return Err(Failure::Unreachable("the watch ended".to_owned())),
            },
            // The watch is restored, also if nothing has changed.
            () = answers.next(), if is_in_trouble => view.trouble(String::new()),
            () = view.rows_changed() => {}
            () = resizes.next(), if is_live => view.is_due = true,
            () = stops.next(), if is_live => view.suspend(&mut stops).await,
            () = sleep_until(next_frame), if is_live => {
                if !view.redraw() {
                    return Ok(Exit::Error);
                }
            }
            () = sleep_until(deadline.unwrap_or(far)), if deadline.is_some() => {
                return Err(Failure::TimedOut(format!("{PLURAL}/{name} to be Ready")));
            }
            () = &mut interrupted => return Err(Failure::Interrupted),
        }
    }
}

/// The output of `status -w`.
struct View {
    screen: Screen,
    output: Option<Output>,
    live: Option<LiveScreen>,
    last_line: String,
    last: Option<Upgrade>,
    /// The clusters, with the UID of their upgrade. Only a live view needs them.
    fleet: Option<(String, Clusters)>,
    /// Why the upgrade cannot be watched; empty if it can.
    trouble: String,
    drawn: Instant,
    /// True if something has changed since the last frame.
    is_due: bool,
}

/// The clusters of an upgrade, and the news of their changes.
struct Clusters {
    fleet: Watched<Fleet>,
    changes: tokio::sync::watch::Receiver<u64>,
}

impl View {
    fn new(output: Option<Output>, screen: Screen) -> View {
        let for_humans = Output::is_for_humans(output);
        View {
            screen,
            output,
            live: (for_humans && screen.redraws).then(|| screen.live()),
            last_line: String::new(),
            last: None,
            fleet: None,
            trouble: String::new(),
            drawn: Instant::now(),
            is_due: false,
        }
    }

    const fn is_live(&self) -> bool {
        self.live.is_some()
    }

    fn next_frame(&self) -> Instant {
        self.drawn + if self.is_due { FRAME } else { TICK }
    }

    /// Shows a new state of the upgrade. Returns the exit if the command is done, or if nobody reads the output any more.
    fn show(&mut self, upgrade: Upgrade, hub: &Hub) -> Option<Exit> {
        let exit = exit_of(&upgrade.verdict());
        if self.is_live() {
            self.follow_clusters(&upgrade, hub);
        }
        let previous = self.last.replace(upgrade);
        let delivered = if self.is_live() {
            self.is_due = true;
            // The first frame does not wait.
            previous.is_some() || self.redraw()
        } else {
            self.append(previous.as_ref())
        };
        if delivered { exit } else { Some(Exit::Error) }
    }

    /// Watches the reports of an upgrade, unless they are watched already.
    fn follow_clusters(&mut self, upgrade: &Upgrade, hub: &Hub) {
        if self.fleet.as_ref().is_none_or(|(uid, _)| *uid != upgrade.uid) {
            let fleet = feed::fleet(hub, upgrade);
            let changes = fleet.changes();
            self.fleet = Some((upgrade.uid.clone(), Clusters { fleet, changes }));
        }
    }

    /// Waits until clusters have changed. Never, if they are not watched.
    async fn rows_changed(&mut self) {
        if let Some((_, clusters)) = &mut self.fleet
            && clusters.changes.changed().await.is_ok()
        {
            self.is_due = true;
            return;
        }
        std::future::pending::<()>().await;
    }

    fn append(&mut self, previous: Option<&Upgrade>) -> bool {
        let Some(upgrade) = &self.last else { return true };
        match objects::upgrade(self.output, upgrade) {
            Some(_) if previous.is_some_and(|previous| previous.object == upgrade.object) => true,
            Some(text) if self.output == Some(Output::Yaml) => self.screen.deliver(&format!("---\n{text}")),
            Some(text) => self.screen.deliver(&text),
            None => {
                let line = status::line(upgrade);
                if line == self.last_line {
                    return true;
                }
                let now = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
                self.last_line = line;
                self.screen.deliver(&format!("{now}  {}\n", self.last_line))
            }
        }
    }

    /// Leaves the terminal to the shell until the program is continued, and draws everything anew then.
    async fn suspend(&mut self, stops: &mut Stops) {
        if let Some(live) = &mut self.live {
            live.suspend(stops).await;
            self.is_due = true;
        }
    }

    /// Draws a frame. Returns false if the terminal is gone.
    fn redraw(&mut self) -> bool {
        (self.drawn, self.is_due) = (Instant::now(), false);
        let size = Size::of_terminal();
        let text = self.picture(size.lines);
        self.live.as_mut().is_none_or(|live| live.draw(&text, size))
    }

    fn picture(&self, lines: usize) -> String {
        let Some(upgrade) = &self.last else {
            return String::new();
        };
        let draw = |rows: Option<&[&ReportRow]>, trouble: &str| {
            let picture = Picture {
                upgrade,
                rows,
                trouble,
            };
            tree::render(picture, lines, Utc::now(), self.screen.paint)
        };
        let retrying = |trouble: &str| match trouble {
            "" => String::new(),
            trouble => format!("{trouble}; retrying"),
        };
        let Some((_, clusters)) = &self.fleet else {
            return draw(None, &retrying(&self.trouble));
        };
        let watches = [clusters.fleet.trouble(), self.trouble.clone()];
        let watches = watches.iter().find(|trouble| !trouble.is_empty());
        clusters.fleet.read(|fleet| {
            let rows = fleet.is_complete().then(|| fleet.since(0).rows);
            let trouble = watches.map_or_else(|| fleet.trouble(), |trouble| retrying(trouble));
            draw(rows.as_deref(), &trouble)
        })
    }

    fn full(&self) -> String {
        let wide = self.output == Some(Output::Wide);
        self.last
            .as_ref()
            .map(|upgrade| status::render(upgrade, wide, Utc::now(), self.screen.paint))
            .unwrap_or_default()
    }

    /// Takes note of why the upgrade cannot be watched. A live view shows it; elsewhere the first of several is a warning.
    fn trouble(&mut self, trouble: String) {
        if !self.is_live() && self.trouble.is_empty() && !trouble.is_empty() {
            self.screen.note(&format!("Warning: {trouble}; retrying\n"));
        }
        self.is_due |= self.trouble != trouble;
        self.trouble = trouble;
    }

    /// Leaves the live view and prints the last state. A log ends with the full view of an upgrade that is not Ready.
    fn close(&mut self, ended: bool) {
        let was_live = self.live.take().is_some();
        let for_humans = Output::is_for_humans(self.output);
        let open = self
            .last
            .as_ref()
            .is_some_and(|upgrade| upgrade.verdict() != Verdict::Ready);
        if was_live || (for_humans && ended && open) {
            self.screen.print(&self.full());
        }
    }
}

const fn exit_of(verdict: &Verdict) -> Option<Exit> {
    match verdict {
        Verdict::Open => None,
        Verdict::Ready => Some(Exit::Done),
        Verdict::Stalled(..) => Some(Exit::Stalled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::{complete, running, stalled};

    #[test]
    fn a_watch_ends_with_the_upgrade() {
        assert_eq!(exit_of(&running().verdict()), None);
        assert_eq!(exit_of(&complete().verdict()), Some(Exit::Done));
        assert_eq!(exit_of(&stalled().verdict()), Some(Exit::Stalled));
    }
}
