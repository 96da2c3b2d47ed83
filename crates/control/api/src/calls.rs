//! The operations by name; the rows of `operations/` say what each does.

/// An operation of the API.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    OpenApi,
    LogIn,
    LogOut,
    Apps,
    CreateApp,
    App,
    ChangeApp,
    DisableApp,
    Rules,
    AppRules,
    CreateRule,
    Rule,
    ChangeRule,
    DeleteRule,
    Access(AccessCall),
    History,
    TopKeys,
    Suggestion,
    Trial,
    Problems,
    Unlimited,
    Events,
    LiveKeys,
    ScanKeys,
    Key,
    ResetKey,
    Overrides,
    CreateOverride,
    EndOverride,
    Nodes,
    Node,
    RemoveNode,
    Frozen,
    Force,
    TakeOver,
    Rollout(RolloutCall),
    Change(ChangeCall),
    Version(VersionCall),
    File(FileCall),
    Transfer(TransferCall),
}

/// An operation on users, tokens, the audit or the settings.
#[derive(Clone, Copy, Debug)]
pub enum AccessCall {
    SetUp,
    RedeemLink,
    Me,
    ChangeMe,
    ChangePassword,
    MyLogins,
    EndLogin,
    Users,
    CreateUser,
    User,
    ChangeUser,
    SetRole,
    RemoveRole,
    ResetPassword,
    Roles,
    Tokens,
    CreateToken,
    Token,
    RevokeToken,
    Audit,
    ExportAudit,
    Chain,
    Settings,
    ChangeSettings,
}

/// An operation on change sets.
#[derive(Clone, Copy, Debug)]
pub enum ChangeCall {
    List,
    Create,
    Get,
    Edit,
    Diff,
    Check,
    Submit,
    Approve,
    Reject,
    Publish,
    Abandon,
    Comment,
    /// Decides the conflicts of a change set.
    Resolve,
    /// Checks operations without a change set.
    CheckOps,
    /// The documents that operations would make, and their effect on a trace.
    Preview,
    Traces,
}

/// An operation on rollouts.
#[derive(Clone, Copy, Debug)]
pub enum RolloutCall {
    List,
    Get,
    Pause,
    Resume,
    Advance,
    Withdraw,
}

/// An operation on versions.
#[derive(Clone, Copy, Debug)]
pub enum VersionCall {
    List,
    Get,
    Diff,
    RollBack,
}

/// An operation on rule files.
#[derive(Clone, Copy, Debug)]
pub enum FileCall {
    List,
    Create,
    Get,
    Change,
    Delete,
    Explain,
}

/// An operation on whole apps.
#[derive(Clone, Copy, Debug)]
pub enum TransferCall {
    Export,
    Import,
}
