//! The console and the REST API of the control plane, as one HTTP surface.
//!
//! [`Console`] is an [`Api`](tollgate_http_kit::Api) of `http-kit`: one table makes the routes and the
//! OpenAPI description, and the kit brings connections, timeouts and bodies within bounds. Pages are rendered
//! on the server and work without JavaScript. Not here: rights, validation and audit, which are in `control`
//! beneath both pages and API; sockets and TLS (`net`).

mod assets;
mod blocking;
mod chart;
mod console;
mod explained;
mod explaining;
mod field;
mod frame;
mod nav;
mod pages;
mod replaying;
mod rest;
mod rooms;
mod settings;
mod surface;
mod texts;
mod turns;
mod web;

pub use console::Console;
pub use replaying::traces_in;
pub use rest::PROBLEMS;
pub use settings::ConsoleSettings;
