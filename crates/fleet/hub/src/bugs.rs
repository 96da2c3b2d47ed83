//! Known bugs of this end: each must be found.

tollgate_fleet_proto::known_bugs! {
    /// A publication that comes while a node is busy is not sent to it afterwards.
    PublicationForgotten: forgets_publications,
    /// A report is confirmed before it is stored.
    SeenBeforeStored: confirms_early,
    /// Nodes that hold a removed app keep it.
    RemovalForgotten: forgets_removals,
    /// Rules that this database has never published are replaced once its version is above theirs.
    ForeignReplaced: replaces_foreign,
    /// A rejected version is sent again and again.
    RejectedSentAgain: insists,
}
