//! News of a session on their way to its client, as log messages: what every client that listens can take.
#![expect(
    deprecated,
    reason = "the newest protocol drops log messages; clients of all others take nothing else"
)]

use rmcp::{
    RoleServer,
    model::{LoggingLevel, LoggingMessageNotificationParam},
    service::Peer,
};
use tokio::sync::broadcast::error::RecvError;
use tools::{Notice, Session};

/// Passes news on from now until the session or the client is gone. A client that is too slow is told how many
/// it missed; nothing waits for it.
pub(super) fn pass_on(session: &Session, client: &Peer<RoleServer>) {
    let Some(mut notices) = session.notices_to_pass_on() else { return };
    let (client, host) = (client.clone(), std::sync::Arc::clone(&session.host));
    tokio::spawn(async move {
        loop {
            let message = match notices.recv().await {
                // Secrets may have come since the process began whose news these are.
                Ok(notice) => message(&notice, &host.scrubber_now().scrub(&notice.text)),
                Err(RecvError::Lagged(missed)) => {
                    let text = format!("{missed} notices were dropped: the client was too slow");
                    LoggingMessageNotificationParam::new(LoggingLevel::Warning, text.into())
                }
                Err(RecvError::Closed) => return,
            };
            if client.notify_logging_message(message).await.is_err() {
                return;
            }
        }
    });
}

fn message(notice: &Notice, text: &str) -> LoggingMessageNotificationParam {
    let level = if notice.error { LoggingLevel::Error } else { LoggingLevel::Info };
    LoggingMessageNotificationParam::new(level, text.into()).with_logger(notice.source)
}

/// Takes the level that a client asks for: above plain information it wants bad news only.
pub(super) fn set_level(session: &Session, level: LoggingLevel) {
    let plain = matches!(level, LoggingLevel::Debug | LoggingLevel::Info);
    session.only_bad_notices(!plain);
}
