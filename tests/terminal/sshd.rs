//! An sshd of our own on loopback, for whoever runs the test.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs until dropped.
pub struct Sshd {
    child: Child,
    dir: tempfile::TempDir,
    port: u16,
}

/// Where Debian and others put it.
const PROGRAMS: [&str; 3] = ["/usr/sbin/sshd", "/sbin/sshd", "/usr/local/sbin/sshd"];

fn key(path: &Path) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}

impl Sshd {
    /// `None` where there is no sshd.
    pub fn start() -> Option<Self> {
        let program = PROGRAMS.iter().find(|path| Path::new(path).exists())?;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        key(&at("host"));
        key(&at("user"));
        std::fs::copy(at("user.pub"), at("keys")).unwrap();
        if is_root() {
            // As root it insists on this folder.
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let port = free_port();
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {host}\nAuthorizedKeysFile {keys}\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nAcceptEnv NO_COLOR\nPrintMotd no\nPrintLastLog no\n",
            host = at("host").display(),
            keys = at("keys").display(),
        );
        std::fs::write(at("config"), config).unwrap();
        let child = Command::new(program)
            .args(["-D", "-e", "-f"])
            .arg(at("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(at("log")).unwrap())
            .spawn()
            .unwrap();
        let sshd = Self { child, dir, port };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = std::fs::read_to_string(sshd.dir.path().join("log")).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(20), "{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(sshd)
    }

    /// The line for a shell that runs `command` over there, on a terminal.
    pub fn line(&self, command: &str) -> String {
        format!(
            "ssh -tt -F none -q -i {key} -p {port} -o SendEnv=NO_COLOR -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null 127.0.0.1 {command}",
            key = self.dir.path().join("user").display(),
            port = self.port,
        )
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}
