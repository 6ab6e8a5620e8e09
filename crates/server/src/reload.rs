//! SIGHUP: the configuration is read again, and sessions go on.

use crate::place;
use std::sync::Arc;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Mutex,
};
use tools::Host;

/// Reads the configuration again at every SIGHUP. A bad file changes nothing and says so.
///
/// # Errors
/// The signal cannot be listened to.
pub(crate) fn on_hangup(host: &Arc<Host>) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let host = Arc::clone(host);
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            reload(&host).await;
        }
    });
    Ok(())
}

async fn reload(host: &Arc<Host>) {
    let settings = host.settings.clone();
    let Some(start) = settings.runtime.clone() else {
        tracing::info!("SIGHUP: there is no --config to read again");
        return;
    };
    let choosing = CHOOSING.lock().await;
    // Building sandboxes may block.
    let used = Arc::clone(host);
    let built = tokio::task::spawn_blocking(move || {
        let settings = config::read_again(&settings)?.unwrap_or(settings);
        let runtime = place::runtime(&settings, settings.runtime.as_ref())?;
        let old = used.reload(&settings, runtime)?;
        let waiting = settings.runtime.map(|now| now.waiting(&start)).unwrap_or_default();
        anyhow::Ok((old, waiting))
    })
    .await;
    drop(choosing);
    match built {
        Ok(Ok((old, waiting))) => {
            tracing::info!(
                "the configuration was read again: sandboxes, languages, hooks, tools, denylist, patterns and \
                 limits on calls and sessions are the new ones"
            );
            if !waiting.is_empty() {
                let waiting = waiting.join(", ");
                tracing::warn!(
                    "{waiting}: changed in the file, but read at the start only; restart the server for it"
                );
            }
            close_when_unused(old, Arc::clone(host));
        }
        Ok(Err(error)) => tracing::error!("{error}; everything stays as it was"),
        Err(error) => tracing::error!("reading the configuration again: {error}; everything stays as it was"),
    }
}

/// Held while sandboxes are chosen and while they are closed: one that is closed is not chosen meanwhile.
static CHOOSING: Mutex<()> = Mutex::const_new(());

/// Calls that run keep the old sandboxes until they end, and what has not changed stays for good.
fn close_when_unused(old: Arc<tools::Runtime>, host: Arc<Host>) {
    tokio::spawn(async move {
        while Arc::strong_count(&old) > 1 {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        let _choosing = CHOOSING.lock().await;
        old.close_but(Some(&host.runtime())).await;
    });
}
