//! Host paths of a simulated node, which has no file system: the usual paths of a node exist, and paths whose
//! type creates them.

use crate::pod::HostPathVolumeSource;

/// Directories that exist on every node.
const DIRECTORIES: [&str; 41] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/dev/shm",
    "/etc",
    "/etc/cni",
    "/etc/cni/net.d",
    "/etc/kubernetes",
    "/etc/kubernetes/manifests",
    "/etc/kubernetes/pki",
    "/etc/ssl",
    "/etc/ssl/certs",
    "/home",
    "/lib",
    "/lib/modules",
    "/media",
    "/mnt",
    "/opt",
    "/opt/cni",
    "/opt/cni/bin",
    "/proc",
    "/root",
    "/run",
    "/run/containerd",
    "/sbin",
    "/srv",
    "/sys",
    "/sys/fs/cgroup",
    "/tmp",
    "/usr",
    "/usr/lib",
    "/usr/local",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/log/containers",
    "/var/log/pods",
    "/var/run",
    "/var/tmp",
];
/// Data directory of the kubelet; it and every path below it are directories.
const KUBELET: &str = "/var/lib/kubelet";
/// Files that exist on every node.
const FILES: [&str; 9] = [
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/localtime",
    "/etc/machine-id",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/resolv.conf",
];
/// Sockets that exist on every node.
const SOCKETS: [&str; 2] = ["/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock"];
/// Character devices that exist on every node.
const CHAR_DEVICES: [&str; 8] = [
    "/dev/fuse",
    "/dev/full",
    "/dev/kmsg",
    "/dev/null",
    "/dev/random",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
];

/// Type of a path on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathType {
    Directory,
    File,
    Socket,
    CharDevice,
}

fn path_type(path: &str) -> Option<PathType> {
    let trimmed = path.trim_end_matches('/');
    let path = if trimmed.is_empty() { "/" } else { trimmed };
    let is_kubelet = path.strip_prefix(KUBELET).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if is_kubelet || DIRECTORIES.contains(&path) {
        return Some(PathType::Directory);
    }
    let kinds = [
        (&FILES[..], PathType::File),
        (&SOCKETS[..], PathType::Socket),
        (&CHAR_DEVICES[..], PathType::CharDevice),
    ];
    kinds.into_iter().find(|(paths, _)| paths.contains(&path)).map(|(_, kind)| kind)
}

/// Returns the kubelet's error if a host path cannot be mounted.
#[must_use]
pub fn mount_error(wanted: &HostPathVolumeSource) -> Option<String> {
    let actual = path_type(&wanted.path);
    let (is_allowed, what) = match wanted.kind.as_str() {
        "Directory" => (actual == Some(PathType::Directory), "a directory"),
        "DirectoryOrCreate" => (actual.is_none_or(|kind| kind == PathType::Directory), "a directory"),
        "File" => (actual == Some(PathType::File), "a file"),
        "FileOrCreate" => (actual.is_none_or(|kind| kind == PathType::File), "a file"),
        "Socket" => (actual == Some(PathType::Socket), "a socket file"),
        "CharDevice" => (actual == Some(PathType::CharDevice), "a character device"),
        "BlockDevice" => (false, "a block device"),
        _ => (true, ""),
    };
    (!is_allowed).then(|| format!("hostPath type check failed: {} is not {what}", wanted.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_path_must_match_its_type() {
        let mount_error = |path: &str, kind: &str| {
            mount_error(&HostPathVolumeSource { path: path.to_owned(), kind: kind.to_owned() })
        };
        for (path, kind) in [
            ("/nowhere", ""),
            ("/nowhere", "DirectoryOrCreate"),
            ("/nowhere", "FileOrCreate"),
            ("/", "Directory"),
            ("/var/log/", "Directory"),
            ("/var/lib/kubelet/plugins", "Directory"),
            ("/etc/hosts", "File"),
            ("/run/containerd/containerd.sock", "Socket"),
            ("/dev/null", "CharDevice"),
        ] {
            assert_eq!(mount_error(path, kind), None, "{path} {kind}");
        }
        for (path, kind, what) in [
            ("/nowhere", "Directory", "a directory"),
            ("/etc/hosts", "DirectoryOrCreate", "a directory"),
            ("/tmp", "File", "a file"),
            ("/tmp", "FileOrCreate", "a file"),
            ("/var/lib/kubeletx", "Directory", "a directory"),
            ("/run/docker.sock", "Socket", "a socket file"),
            ("/dev/ttyUSB0", "CharDevice", "a character device"),
            ("/dev/sda", "BlockDevice", "a block device"),
        ] {
            let expected = format!("hostPath type check failed: {path} is not {what}");
            assert_eq!(mount_error(path, kind), Some(expected), "{path} {kind}");
        }
    }
}
