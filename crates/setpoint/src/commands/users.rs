//! `setpoint users`: client certificates of users, signed by the CA of a data directory.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Clock, Value, yaml};
use setpoint_pki::certs::users::{self, LIFETIME_MAX, LIFETIME_MIN, NAME_CHARACTERS_MAX};
use setpoint_pki::private_file;
use setpoint_server::kubeconfig::user_text;

use super::data_dir_or_default;
use super::fleet::parse_duration;
use crate::clock::{SystemClock, entropy};

/// Address of a server with the default flags.
const DEFAULT_SERVER: &str = "https://127.0.0.1:6443";
/// Prefix of the names that Kubernetes reserves.
const SYSTEM_PREFIX: &str = "system:";

/// Arguments of `setpoint users`.
#[derive(Debug, clap::Args)]
pub struct UsersArgs {
    #[command(subcommand)]
    command: UsersCommand,
}

#[derive(Debug, clap::Subcommand)]
enum UsersCommand {
    /// Issue a client certificate for a user, and write a kubeconfig with it
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddArgs),
}

const ADD_EXAMPLES: &str = "\
Examples:
  # Issue a certificate for ann, a member of the group dev, and write ann.kubeconfig
  setpoint users add ann --group dev

  # Allow the group dev to edit the namespace shop
  kubectl create rolebinding dev-edit --clusterrole=edit --group=dev --namespace=shop

No server is needed. A certificate cannot be revoked before it expires: remove the bindings of its user and groups instead.";

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Name of the user
    #[arg(value_parser = parse_name)]
    name: String,
    /// Group of the user; may be repeated
    #[arg(long = "group", value_name = "GROUP", value_parser = parse_name)]
    groups: Vec<String>,
    /// Validity of the certificate, from 10m to 8760h
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = parse_lifetime)]
    expires: Duration,
    /// File to write the kubeconfig to [default: NAME.kubeconfig in the current directory]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Address of the server in the kubeconfig [default: that of the data directory's kubeconfig]
    #[arg(long, value_name = "URL", value_parser = parse_server)]
    server: Option<String>,
    /// Data directory with the CA [default: `setpoint` in the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Accept names and groups with the reserved prefix `system:`; members of system:masters may do everything
    #[arg(long)]
    allow_system: bool,
}

fn parse_name(text: &str) -> anyhow::Result<String> {
    ensure!(!text.trim().is_empty(), "must not be empty");
    ensure!(!text.chars().any(char::is_control), "must not contain control characters");
    ensure!(
        text.chars().count() <= NAME_CHARACTERS_MAX,
        "must have at most {NAME_CHARACTERS_MAX} characters"
    );
    Ok(text.to_owned())
}

fn parse_lifetime(text: &str) -> anyhow::Result<Duration> {
    let lifetime = parse_duration(text)?;
    ensure!((LIFETIME_MIN..=LIFETIME_MAX).contains(&lifetime), "must be from 10m to 8760h");
    Ok(lifetime)
}

fn parse_server(text: &str) -> anyhow::Result<String> {
    let host = text.strip_prefix("https://").unwrap_or_default();
    ensure!(
        !host.is_empty() && !host.contains(char::is_whitespace),
        "must be a URL such as {DEFAULT_SERVER}"
    );
    Ok(text.to_owned())
}

/// Runs the command.
pub fn run(args: &UsersArgs) -> anyhow::Result<()> {
    let UsersCommand::Add(args) = &args.command;
    add(args)
}

fn add(args: &AddArgs) -> anyhow::Result<()> {
    let AddArgs { name, groups, .. } = args;
    if !args.allow_system {
        let reserved = std::iter::once(name).chain(groups).find(|name| name.starts_with(SYSTEM_PREFIX));
        if let Some(reserved) = reserved {
            bail!(
                "{reserved:?} has the reserved prefix {SYSTEM_PREFIX}: choose another name, or set --allow-system"
            );
        }
    }
    let dir = data_dir_or_default(args.data_dir.as_deref())?;
    ensure!(
        dir.is_dir(),
        "there is no data directory {}: start a server with `setpoint up`, or set --data-dir",
        dir.display()
    );
    let path = args.kubeconfig.clone().unwrap_or_else(|| default_path(name));
    if !args.force && path.symlink_metadata().is_ok() {
        return Err(exists(&path));
    }
    let numbers = [entropy(), entropy()];
    let issued = users::issue(&dir.join("pki"), (name, groups), args.expires, SystemClock.now(), numbers)?;
    let server = args.server.clone().or_else(|| server_of(&dir)).unwrap_or_else(|| DEFAULT_SERVER.to_owned());
    let text = user_text(&server, name, &issued);
    let written = if args.force {
        private_file::replace(&path, text.as_bytes())
    } else {
        private_file::create(&path, text.as_bytes())
    };
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(&path)),
        written => written.with_context(|| format!("cannot write {}", path.display()))?,
    }
    println!("user {name:?} added: the certificate expires at {}", Seconds(issued.end));
    println!("kubeconfig: {}", path.display());
    println!("{}", next_step(name, groups));
    Ok(())
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow::anyhow!("{} exists: choose another --kubeconfig, or replace it with --force", path.display())
}

/// File in the current directory, named after the user.
fn default_path(name: &str) -> PathBuf {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._@-".contains(letter);
    let name: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect();
    PathBuf::from(format!("{}.kubeconfig", name.trim_start_matches('.')))
}

/// Address of the server in the kubeconfig of a data directory; `None` if there is none.
fn server_of(dir: &Path) -> Option<String> {
    let (config, _) = yaml::parse_strict(&std::fs::read(dir.join("kubeconfig")).ok()?).ok()?;
    let cluster = config.get("clusters").and_then(Value::as_list)?.first()?;
    Some(cluster.str_at(&["cluster", "server"]).to_owned()).filter(|server| !server.is_empty())
}

/// Text about permissions: the user has none until there is a binding.
fn next_step(name: &str, groups: &[String]) -> String {
    if groups.iter().any(|group| group == "system:masters") {
        return "members of system:masters may do everything, and no binding restricts them".to_owned();
    }
    let quoted = |text: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._@:/-".contains(letter);
        if text.chars().all(is_plain) {
            text.to_owned()
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    let subject = match groups.first() {
        Some(group) => format!("--group={}", quoted(group)),
        None => format!("--user={}", quoted(name)),
    };
    format!(
        "to give permissions, bind a role, for example:\n  kubectl create rolebinding NAME --clusterrole=edit {subject} \
         --namespace=default"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_lifetimes_are_validated() {
        assert!(parse_name("ann@example.com").is_ok() && parse_name(&"é".repeat(64)).is_ok());
        for name in ["", "  ", "a\nb", &"x".repeat(65)] {
            assert!(parse_name(name).is_err(), "{name:?}");
        }
        assert_eq!(parse_lifetime("24h").unwrap(), Duration::from_secs(24 * 3600));
        assert!(
            parse_lifetime("9m").is_err()
                && parse_lifetime("8761h").is_err()
                && parse_lifetime("1d").is_err()
        );
        assert!(parse_server("https://a:6443").is_ok());
        assert!(
            parse_server("http://a").is_err()
                && parse_server("https://").is_err()
                && parse_server("a").is_err()
        );
    }

    #[test]
    fn default_file_is_named_after_the_user() {
        assert_eq!(default_path("ann"), Path::new("ann.kubeconfig"));
        assert_eq!(default_path("../a b:c"), Path::new("-a-b-c.kubeconfig"));
    }

    #[test]
    fn next_step_is_a_binding_of_the_group_or_the_user() {
        assert!(next_step("ann", &[]).contains("--user=ann "));
        assert!(next_step("o'neil b", &[]).contains(r"--user='o'\''neil b' "));
        assert!(next_step("ann", &["dev".to_owned()]).contains("--group=dev "));
        assert!(next_step("ann", &["system:masters".to_owned()]).contains("may do everything"));
    }
}
