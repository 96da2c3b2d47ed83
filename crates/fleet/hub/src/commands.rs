//! Commands that wait for the reply of a node.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate_fleet_proto::Reply;

/// Why a command has no reply.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandError {
    /// Nothing was sent.
    #[error("the node is not connected")]
    Away,
    /// Nothing was sent.
    #[error("too many commands wait for a reply")]
    Busy,
    /// The node may or may not have carried it out.
    #[error("no reply within {0:?}")]
    Silent(Duration),
}

/// Commands that wait for a reply, each with the node that it was sent to.
pub(crate) type Commands = HashMap<u64, (String, oneshot::Sender<Reply>)>;

/// Gives a reply to the one that waits, if `node` was asked: numbers of commands are easy to guess.
/// Whether it was.
pub(crate) fn deliver(commands: &mut Commands, node: &str, reply: Reply) -> bool {
    if commands.get(&reply.command).is_none_or(|(asked, _)| asked != node) {
        return false;
    }
    if let Some((_, waiting)) = commands.remove(&reply.command) {
        let _ = waiting.send(reply); // the one that asked may have left
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_node_that_was_asked_can_answer_a_command() {
        let mut commands = Commands::new();
        let (sender, mut waiting) = oneshot::channel();
        commands.insert(7, ("a".to_owned(), sender));
        let reply = |body: &str| Reply { command: 7, body: body.to_owned(), ..Reply::default() };
        deliver(&mut commands, "b", reply("forged"));
        assert!(waiting.try_recv().is_err() && commands.len() == 1);
        deliver(&mut commands, "a", reply("true"));
        assert_eq!(waiting.try_recv().map(|it| it.body), Ok("true".to_owned()));
        deliver(&mut commands, "a", reply("again"));
        assert!(commands.is_empty());
    }
}
