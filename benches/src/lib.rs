//! Our numbers beside the peers', one command.
