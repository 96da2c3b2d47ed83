//! The file of a Unix socket: who owns it, and when it may be replaced or removed.
//!
//! A server that was killed leaves its file behind, and nothing can listen there until it is removed. It is
//! replaced only if no process listens on it. Servers that start in one folder at the same time wait for each
//! other, so that none takes the file of another for a leftover.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use socket2::{Domain, SockAddr, Socket, Type};

/// The file of a Unix socket that this process listens on. Removed when it is dropped, if not before.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode, so that a file that another server has put there since is left alone. No other file
    /// has them while the socket is open.
    id: (u64, u64),
}

impl SocketFile {
    /// Listens on `path`, whose file gets the permissions `mode`.
    pub(crate) fn bind(path: &Path, mode: u32, backlog: i32) -> io::Result<(Arc<Self>, UnixListener)> {
        let address = SockAddr::unix(path)?;
        // Without the lock two servers that begin at once could replace each other's file. Where a folder
        // cannot be locked, that is unlikely.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new("."))).ok();
        let _locked = folder.as_ref().map(File::lock);
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        if let Err(error) = socket.bind(&address) {
            match error.kind() {
                io::ErrorKind::AddrInUse => {}
                io::ErrorKind::NotFound => {
                    let what = "its folder is not there; make the folder, or give another path";
                    return Err(io::Error::new(error.kind(), what));
                }
                _ => return Err(error),
            }
            remove_if_left_behind(path)?;
            socket.bind(&address)?;
        }
        let found = fs::symlink_metadata(path)?;
        let file = Arc::new(Self { path: path.to_owned(), id: (found.dev(), found.ino()) });
        // Clients cannot connect before it listens, so none connects with other permissions.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        socket.listen(backlog)?;
        Ok((file, socket.into()))
    }

    /// Removes the file, if it is still this process's.
    pub(crate) fn remove(&self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.id) {
            let _ = fs::remove_file(&self.path); // if it cannot be removed, the next server replaces it
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes the socket file `path` if no process listens on it.
fn remove_if_left_behind(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        let what = "there is a file that is not a socket; remove it, or give another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        // Also if its queue is full.
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(path: &Path) -> io::Result<(Arc<SocketFile>, UnixListener)> {
        SocketFile::bind(path, 0o600, 16)
    }

    #[test]
    fn a_file_is_replaced_only_if_nobody_listens_on_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sock");
        drop(UnixListener::bind(&path).expect("a free path"));
        assert!(path.exists(), "as a server leaves it that was killed");
        let first = bind(&path).expect("nobody listens");
        assert_eq!(bind(&path).expect_err("taken").kind(), io::ErrorKind::AddrInUse);
        fs::remove_file(&path).expect("by another program");
        let second = bind(&path).expect("a free path");
        drop(first);
        assert!(path.exists(), "it is another server's file by now");
        assert!(UnixStream::connect(&path).is_ok());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_not_a_socket_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notes.txt");
        fs::write(&path, "mine").expect("written");
        let error = bind(&path).expect_err("a file");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("not a socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("kept"), "mine");
        let link = folder.path().join("link.sock");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert_eq!(bind(&link).expect_err("a link").kind(), io::ErrorKind::AlreadyExists);
        assert!(link.is_symlink() && path.exists());
    }

    #[test]
    fn the_file_has_the_permissions_that_were_given() {
        let folder = tempfile::tempdir().expect("a folder");
        for mode in [0o600, 0o660, 0o666] {
            let path = folder.path().join(format!("{mode:o}.sock"));
            let _bound = SocketFile::bind(&path, mode, 16).expect("a free path");
            let found = fs::symlink_metadata(&path).expect("a file").permissions().mode() & 0o777;
            assert_eq!(found, mode);
        }
    }

    #[test]
    fn of_servers_that_begin_at_once_one_gets_the_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sock");
        for round in 0..50 {
            if round % 2 == 1 {
                // Left behind: the file stays, without a listener.
                drop(UnixListener::bind(&path).expect("a free path"));
            }
            let bound = std::thread::scope(|threads| {
                let all: Vec<_> = (0..8).map(|_| threads.spawn(|| bind(&path))).collect();
                all.into_iter().filter_map(|one| one.join().expect("no panic").ok()).collect::<Vec<_>>()
            });
            assert_eq!(bound.len(), 1, "round {round}");
            assert!(UnixStream::connect(&path).is_ok(), "round {round}");
        }
    }

    #[test]
    fn a_path_that_is_too_long_or_in_no_folder_is_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(bind(&folder.path().join("x".repeat(200))).is_err());
        let missing = bind(&folder.path().join("missing/a.sock")).expect_err("no folder");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(missing.to_string().contains("make the folder"), "{missing}");
    }
}
