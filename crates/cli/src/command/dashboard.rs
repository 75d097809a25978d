//! `dashboard`: serves the page until it is interrupted.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::args::{Common, DashboardArgs};
use crate::dashboard::feed;
use crate::dashboard::guard::Token;
use crate::dashboard::server::router;
use crate::dashboard::state::Dashboard;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::screen::Screen;

pub(super) async fn run(common: &Common, args: &DashboardArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    // What the page could only show as trouble is better said here.
    feed::probe(&hub, common.all_namespaces).await?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::Other(format!(
            "the dashboard cannot listen on {address}: {error}; choose another port with --port"
        ))
    })?;
    let address = listener
        .local_addr()
        .map_err(|error| Failure::Other(error.to_string()))?;
    let token = Token::random()?;
    screen.print(&format!("http://{address}/#token={}\n", token.as_str()));
    let may = if args.allow_actions { "can" } else { "cannot" };
    screen.note(&format!(
        "Open this address in a browser. Whoever has it can read the upgrades with your rights, and {may} change them.\n\
         The dashboard runs until you press Ctrl-C.\n"
    ));
    let dashboard = Arc::new(Dashboard::new(hub, common.all_namespaces, args.allow_actions));
    let server = axum::serve(listener, router(dashboard, token));
    tokio::select! {
        ended = server.into_future() => match ended {
            Ok(()) => Ok(Exit::Done),
            Err(error) => Err(Failure::Other(error.to_string())),
        },
        _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
    }
}
