//! `status -w`: follows an upgrade until it is Ready or Stalled. It redraws a terminal; any other output gets one line per
//! change.

use std::time::Duration;

use chrono::{SecondsFormat, TimeDelta, Utc};
use futures::StreamExt;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::args::{Common, Output};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render::{objects, status};
use crate::screen::{LiveScreen, Screen};
use crate::upgrade::{PLURAL, Upgrade, Verdict};

/// How often the screen is redrawn. Without changes, only the ages on it grow.
const REDRAW: Duration = Duration::from_secs(1);

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
    let (mut events, mut trouble) = (std::pin::pin!(hub.follow(name)), false);
    let mut redraw = interval(REDRAW);
    redraw.set_missed_tick_behavior(MissedTickBehavior::Skip);
    if let Some(exit) = view.show(first) {
        return Ok(exit);
    }
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Some(upgrade))) => {
                    trouble = false;
                    if let Some(exit) = view.show(upgrade) {
                        return Ok(exit);
                    }
                }
                Some(Ok(None)) => return Err(Failure::not_found(PLURAL, name)),
                Some(Err(error)) if !trouble => {
                    trouble = true;
                    view.note(&format!("Warning: {error}; retrying\n"));
                }
                Some(Err(_)) => {}
                None => return Err(Failure::Unreachable("the watch ended".to_owned())),
            },
            _ = redraw.tick(), if view.is_live() => {
                if !view.redraw() {
                    return Ok(Exit::Error);
                }
            }
            () = sleep_until(deadline.unwrap_or(far)), if deadline.is_some() => {
                return Err(Failure::TimedOut(format!("{PLURAL}/{name} to be Ready")));
            }
            _ = tokio::signal::ctrl_c() => return Err(Failure::Interrupted),
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
}

impl View {
    fn new(output: Option<Output>, screen: Screen) -> View {
        let for_humans = matches!(output, None | Some(Output::Wide));
        View {
            screen,
            output,
            live: (for_humans && screen.redraws).then(|| screen.live()),
            last_line: String::new(),
            last: None,
        }
    }

    const fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Shows a new state of the upgrade. Returns the exit if the command is done, or if nobody reads the output any more.
    fn show(&mut self, upgrade: Upgrade) -> Option<Exit> {
        let exit = exit_of(&upgrade.verdict());
        let previous = self.last.replace(upgrade);
        let delivered = if self.is_live() {
            self.redraw()
        } else {
            self.append(previous.as_ref())
        };
        if delivered { exit } else { Some(Exit::Error) }
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

    fn redraw(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.draw(&self.full()))
    }

    fn full(&self) -> String {
        let wide = self.output == Some(Output::Wide);
        self.last
            .as_ref()
            .map(|upgrade| status::render(upgrade, wide, Utc::now(), self.screen.paint))
            .unwrap_or_default()
    }

    /// Prints a remark to standard error. In a live view, the next redraw removes it.
    fn note(&self, text: &str) {
        self.screen.note(text);
    }

    /// Leaves the live view and prints the last state. A log ends with the full view of an upgrade that is not Ready.
    fn close(&mut self, ended: bool) {
        let was_live = self.live.take().is_some();
        let for_humans = matches!(self.output, None | Some(Output::Wide));
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
