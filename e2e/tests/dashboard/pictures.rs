//! Pictures of the page, kept in `target/dashboard`. With `UPDATE_IMAGES=1`, the picture of the README is made anew.

use std::path::PathBuf;

use repository::{Metadata, root};
use serde_json::Value;

use crate::Running;
use crate::page::open;

#[tokio::test]
async fn the_page_is_shown_in_both_themes() {
    // As the documented command shows it.
    let running = Running::start(2_000, false).await.unwrap();
    let Some(browser) = open(&running).await.unwrap() else {
        return;
    };
    browser
        .wait("document.querySelector('#causes li b')")
        .await
        .unwrap();
    let background = "return getComputedStyle(document.documentElement).backgroundColor";
    let mut seen = Vec::new();
    for theme in ["light", "dark"] {
        browser
            .run::<Value>("document.querySelector('#theme').click()")
            .await
            .unwrap();
        browser
            .wait(&format!("document.documentElement.dataset.theme === '{theme}'"))
            .await
            .unwrap();
        let open_first = "document.querySelector('#causes button').focus()";
        browser.run::<Value>(open_first).await.unwrap();
        seen.push(browser.run::<String>(background).await.unwrap());
        browser
            .screenshot(&target().join(format!("{theme}.png")))
            .await
            .unwrap();
        if theme == "light" && std::env::var_os("UPDATE_IMAGES").is_some() {
            browser
                .screenshot(&root().join("docs/images/dashboard.png"))
                .await
                .unwrap();
        }
    }
    assert_ne!(seen[0], seen[1]);
    browser.quit().await.unwrap();
}

fn target() -> PathBuf {
    Metadata::load().unwrap().target_directory.join("dashboard")
}
