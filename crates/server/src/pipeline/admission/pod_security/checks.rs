//! Checks of the Pod Security Standards: one function per check, in upstream's order of messages.

use std::collections::BTreeSet;

use setpoint_api::Value;

use super::policy::{Level, LevelVersion, PolicyVersion};

/// Violations of a policy, each as `reason (detail)`.
///
/// A check applies from the version in which upstream added it; some changed later. Restricted checks replace weaker
/// baseline checks of the same fields.
pub(super) fn violations(policy: LevelVersion, metadata: &Value, spec: &Value) -> Vec<String> {
    let pod = Pod { metadata, spec };
    let LevelVersion { level, version } = policy;
    let is_restricted = level == Level::Restricted;
    let mut found = Vec::new();
    if level == Level::Privileged {
        return found;
    }
    let run = |applies: bool, check: &dyn Fn() -> Option<String>| if applies { check() } else { None };
    // User namespaces relax some checks.
    let is_relaxed = version.has(35) && pod.has_user_namespace();
    let is_exempt_windows = version.has(25) && pod.is_windows();
    found.extend(pod.app_armor());
    found.extend(run(!(is_restricted && version.has(22)), &|| pod.added_capabilities()));
    found.extend(pod.host_namespaces());
    found.extend(run(!is_restricted, &|| pod.host_paths()));
    found.extend(pod.host_ports());
    found.extend(run(version.has(34), &|| pod.probed_hosts()));
    found.extend(pod.privileged());
    found.extend(run(!(is_relaxed || is_restricted && version.has(35)), &|| pod.proc_mount()));
    found.extend(pod.selinux(version));
    found.extend(run(!version.has(19), &|| pod.seccomp_annotations()));
    found.extend(run(version.has(19) && !is_restricted, &|| pod.seccomp(false)));
    found.extend(pod.sysctls(version));
    found.extend(pod.host_process());
    if is_restricted {
        found.extend(run(version.has(8) && !is_exempt_windows, &|| pod.escalation()));
        found.extend(run(version.has(22) && !is_exempt_windows, &|| pod.capabilities()));
        found.extend(run(version.has(35), &|| pod.proc_mount()));
        found.extend(pod.volumes());
        found.extend(run(!is_relaxed, &|| pod.non_root()));
        found.extend(run(version.has(23) && !is_relaxed, &|| pod.user()));
        found.extend(run(version.has(19) && !is_exempt_windows, &|| pod.seccomp(true)));
    }
    found
}

/// Reason of a violation, without its detail.
pub(super) fn reason(violation: &str) -> &str {
    violation.split_once(" (").map_or(violation, |(reason, _)| reason)
}

/// Metadata and spec of a pod or a pod template.
struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

/// Quotes and joins names.
fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("\"{}\"", name.as_ref())).collect();
    names.join(", ")
}

fn plural(one: &'static str, many: &'static str, count: usize) -> &'static str {
    if count == 1 { one } else { many }
}

/// `container "a"` or `containers "a", "b"`.
fn containers_named(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Origin of a setting: the pod, some containers, or both.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    let mut setter = Vec::new();
    if pod {
        setter.push("pod".to_owned());
    }
    if !containers.is_empty() {
        setter.push(containers_named(containers));
    }
    (!setter.is_empty()).then(|| setter.join(" and "))
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let of = |field| self.spec.get(field).and_then(Value::as_list).unwrap_or_default();
        ["initContainers", "containers", "ephemeralContainers"].map(of).into_iter().flatten()
    }

    /// Names of the containers that match.
    fn containers_where(&self, predicate: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|it| predicate(it)).map(|it| it.str_at(&["name"])).collect()
    }

    /// A field of the pod's security context.
    fn security_context(&self, path: &[&str]) -> Option<&'a Value> {
        self.spec.get("securityContext")?.at(path)
    }

    fn is_windows(&self) -> bool {
        self.spec.str_at(&["os", "name"]) == "windows"
    }

    /// `true` if the pod has a user namespace.
    fn has_user_namespace(&self) -> bool {
        self.spec.get("hostUsers").and_then(Value::as_bool) == Some(false)
    }

    fn host_namespaces(&self) -> Option<String> {
        let is_set = |field: &&str| self.spec.get(field).and_then(Value::as_bool) == Some(true);
        let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(is_set);
        let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
        (!shared.is_empty()).then(|| format!("host namespaces ({})", shared.join(", ")))
    }

    fn host_paths(&self) -> Option<String> {
        let volumes = self.spec.get("volumes").and_then(Value::as_list).unwrap_or_default();
        let bad = volumes.iter().filter(|volume| volume.get("hostPath").is_some());
        let bad: Vec<&str> = bad.map(|volume| volume.str_at(&["name"])).collect();
        let word = plural("volume", "volumes", bad.len());
        (!bad.is_empty()).then(|| format!("hostPath volumes ({word} {})", quoted(&bad)))
    }

    fn host_ports(&self) -> Option<String> {
        let ports = |container: &Value| -> Vec<String> {
            let list = container.get("ports").and_then(Value::as_list).unwrap_or_default();
            let ports = list.iter().filter_map(|port| port.get("hostPort").and_then(Value::as_i64));
            ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
        };
        let bad = self.containers_where(|container| !ports(container).is_empty());
        let numbers: BTreeSet<String> = self.containers().flat_map(ports).collect();
        (!bad.is_empty()).then(|| {
            let (use_, word) =
                (plural("uses", "use", bad.len()), plural("hostPort", "hostPorts", numbers.len()));
            let numbers: Vec<String> = numbers.into_iter().collect();
            format!("hostPort ({} {use_} {word} {})", containers_named(&bad), numbers.join(", "))
        })
    }

    fn probed_hosts(&self) -> Option<String> {
        const HANDLERS: [&[&str]; 5] = [
            &["livenessProbe"],
            &["readinessProbe"],
            &["startupProbe"],
            &["lifecycle", "postStart"],
            &["lifecycle", "preStop"],
        ];
        let hosts = |container: &Value| -> Vec<String> {
            let handlers = HANDLERS.iter().filter_map(|path| container.at(path));
            let hosts = handlers
                .flat_map(|it| ["httpGet", "tcpSocket"].map(|by| it.str_at(&[by, "host"]).to_owned()));
            hosts.filter(|host| !host.is_empty()).collect()
        };
        let bad: BTreeSet<&str> =
            self.containers_where(|container| !hosts(container).is_empty()).into_iter().collect();
        let bad: Vec<&str> = bad.into_iter().collect();
        let found: BTreeSet<String> = self.containers().flat_map(hosts).collect();
        (!bad.is_empty()).then(|| {
            let use_ = plural("uses", "use", bad.len());
            let word = plural("probe or lifecycle host", "probe or lifecycle hosts", found.len());
            format!("probe or lifecycle host ({} {use_} {word} {})", containers_named(&bad), quoted(&found))
        })
    }

    fn privileged(&self) -> Option<String> {
        let bad = self.containers_where(|it| is_true(it, &["securityContext", "privileged"]));
        let setter = setters(false, &bad)?;
        Some(format!("privileged ({setter} must not set securityContext.privileged=true)"))
    }

    fn proc_mount(&self) -> Option<String> {
        let mount = |it: &'a Value| it.str_at(&["securityContext", "procMount"]);
        let is_bad = |it: &'a Value| !matches!(mount(it), "" | "Default");
        let bad: Vec<&str> =
            self.containers().filter(|it| is_bad(it)).map(|it| it.str_at(&["name"])).collect();
        let types: BTreeSet<&str> = self.containers().filter(|it| is_bad(it)).map(mount).collect();
        let setter = setters(false, &bad)?;
        Some(format!("procMount ({setter} must not set securityContext.procMount to {})", quoted(types)))
    }

    fn selinux(&self, version: PolicyVersion) -> Option<String> {
        const ALL_TYPES: [&str; 5] =
            ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
        // The last type was added later.
        let types_allowed = if version.has(31) { &ALL_TYPES[..] } else { &ALL_TYPES[..4] };
        let of_containers = self
            .containers()
            .filter_map(|it| Some((it.str_at(&["name"]), it.at(&["securityContext", "seLinuxOptions"])?)));
        let of_containers: Vec<(&str, &Value)> = of_containers.collect();
        let is_set = |options: &Value, field| !options.str_at(&[field]).is_empty();
        let is_bad = |options: &Value| {
            !types_allowed.contains(&options.str_at(&["type"]))
                || is_set(options, "user")
                || is_set(options, "role")
        };
        let own = self.security_context(&["seLinuxOptions"]);
        let bad: Vec<&str> =
            of_containers.iter().filter(|(_, it)| is_bad(it)).map(|(name, _)| *name).collect();
        let setter = setters(own.is_some_and(is_bad), &bad)?;
        let all: Vec<&Value> = own.into_iter().chain(of_containers.into_iter().map(|(_, it)| it)).collect();
        let types: BTreeSet<&str> =
            all.iter().map(|it| it.str_at(&["type"])).filter(|it| !types_allowed.contains(it)).collect();
        let mut what = Vec::new();
        if !types.is_empty() {
            what.push(format!("{} {}", plural("type", "types", types.len()), quoted(&types)));
        }
        for field in ["user", "role"] {
            if all.iter().any(|it| is_set(it, field)) {
                what.push(format!("{field} may not be set"));
            }
        }
        let what = what.join("; ");
        Some(format!("seLinuxOptions ({setter} set forbidden securityContext.seLinuxOptions: {what})"))
    }

    fn sysctls(&self, version: PolicyVersion) -> Option<String> {
        /// Safe sysctls, each with the version in which it became one.
        const SAFE: [(&str, u32); 14] = [
            ("kernel.shm_rmid_forced", 0),
            ("net.ipv4.ip_local_port_range", 0),
            ("net.ipv4.ip_unprivileged_port_start", 0),
            ("net.ipv4.ping_group_range", 0),
            ("net.ipv4.tcp_syncookies", 0),
            ("net.ipv4.ip_local_reserved_ports", 27),
            ("net.ipv4.tcp_fin_timeout", 29),
            ("net.ipv4.tcp_keepalive_intvl", 29),
            ("net.ipv4.tcp_keepalive_probes", 29),
            ("net.ipv4.tcp_keepalive_time", 29),
            ("net.ipv4.tcp_rmem", 32),
            ("net.ipv4.tcp_wmem", 32),
            ("net.ipv4.tcp_notsent_lowat", 37),
            ("net.ipv4.tcp_slow_start_after_idle", 37),
        ];
        let is_safe = |name: &str| SAFE.iter().any(|(safe, since)| *safe == name && version.has(*since));
        let list = self.security_context(&["sysctls"]).and_then(Value::as_list).unwrap_or_default();
        let names = list.iter().map(|sysctl| sysctl.str_at(&["name"]));
        let bad: Vec<&str> = names.filter(|name| !is_safe(name)).collect();
        (!bad.is_empty()).then(|| format!("forbidden sysctls ({})", bad.join(", ")))
    }

    /// Seccomp annotations, which preceded the fields.
    fn seccomp_annotations(&self) -> Option<String> {
        const POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
        const CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
        let is_allowed = |profile: &str| {
            matches!(profile, "runtime/default" | "docker/default") || profile.starts_with("localhost/")
        };
        let of_containers = self.containers().map(|it| format!("{CONTAINER}{}", it.str_at(&["name"])));
        let keys = std::iter::once(POD.to_owned()).chain(of_containers);
        let forbidden: BTreeSet<String> = keys
            .filter_map(|key| {
                let profile = self.metadata.at(&["annotations", &key])?.as_str()?;
                (!is_allowed(profile)).then(|| format!("{key}={profile:?}"))
            })
            .collect();
        let word = plural("annotation", "annotations", forbidden.len());
        let shown: Vec<&str> = forbidden.iter().map(String::as_str).collect();
        (!forbidden.is_empty()).then(|| format!("seccompProfile (forbidden {word} {})", shown.join(", ")))
    }

    fn host_process(&self) -> Option<String> {
        let path = ["windowsOptions", "hostProcess"];
        let own = self.security_context(&path).and_then(Value::as_bool) == Some(true);
        let bad = self.containers_where(|it| is_true(it, &["securityContext", path[0], path[1]]));
        let setter = setters(own, &bad)?;
        Some(format!("hostProcess ({setter} must not set securityContext.windowsOptions.hostProcess=true)"))
    }

    fn app_armor(&self) -> Option<String> {
        const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
        let is_bad = |profile: &Value| !matches!(profile.str_at(&["type"]), "RuntimeDefault" | "Localhost");
        let of =
            |it: &'a Value| it.at(&["securityContext", "appArmorProfile"]).filter(|profile| is_bad(profile));
        let own = self.security_context(&["appArmorProfile"]).filter(|profile| is_bad(profile));
        let bad =
            self.containers_where(|it| it.at(&["securityContext", "appArmorProfile"]).is_some_and(is_bad));
        let values: BTreeSet<&str> =
            own.into_iter().chain(self.containers().filter_map(of)).map(|it| it.str_at(&["type"])).collect();
        let annotations = self.metadata.get("annotations").and_then(Value::as_map);
        let annotations = annotations.into_iter().flat_map(|map| map.iter());
        let forbidden: BTreeSet<String> = annotations
            .filter(|(key, _)| key.starts_with(PREFIX))
            .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
            .filter(|(_, it)| !it.is_empty() && *it != "runtime/default" && !it.starts_with("localhost/"))
            .map(|(key, value)| format!("{key}={value:?}"))
            .collect();
        let mut setter: Vec<String> = setters(own.is_some(), &bad).into_iter().collect();
        if !forbidden.is_empty() {
            setter.push(plural("annotation", "annotations", forbidden.len()).to_owned());
        }
        let values: Vec<String> = values.into_iter().map(str::to_owned).chain(forbidden).collect();
        (!setter.is_empty()).then(|| {
            let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
            let setter = setter.join(" and ");
            format!("{reason} ({setter} must not set AppArmor profile type to {})", quoted(&values))
        })
    }

    /// Describes containers that add capabilities other than `allowed`; `None` if there are none.
    fn forbidden_capabilities(&self, allowed: &[&str]) -> Option<String> {
        let added = |it: &'a Value| -> Vec<&'a str> {
            let list = it.at(&["securityContext", "capabilities", "add"]).and_then(Value::as_list);
            let names = list.unwrap_or_default().iter().filter_map(Value::as_str);
            names.filter(|name| !allowed.contains(name)).collect()
        };
        let with = self.containers().filter(|it| !added(it).is_empty());
        let bad: Vec<&str> = with.map(|it| it.str_at(&["name"])).collect();
        let names: BTreeSet<&str> = self.containers().flat_map(added).collect();
        let setter = setters(false, &bad)?;
        Some(format!("{setter} must not include {} in securityContext.capabilities.add", quoted(names)))
    }

    fn added_capabilities(&self) -> Option<String> {
        const DEFAULT_CAPABILITIES: [&str; 13] = [
            "AUDIT_WRITE",
            "CHOWN",
            "DAC_OVERRIDE",
            "FOWNER",
            "FSETID",
            "KILL",
            "MKNOD",
            "NET_BIND_SERVICE",
            "SETFCAP",
            "SETGID",
            "SETPCAP",
            "SETUID",
            "SYS_CHROOT",
        ];
        self.forbidden_capabilities(&DEFAULT_CAPABILITIES)
            .map(|detail| format!("non-default capabilities ({detail})"))
    }

    fn capabilities(&self) -> Option<String> {
        let keeps = self.containers_where(|it| {
            let dropped = it.at(&["securityContext", "capabilities", "drop"]).and_then(Value::as_list);
            !dropped.unwrap_or_default().iter().any(|name| name.as_str() == Some("ALL"))
        });
        let must_drop = setters(false, &keeps)
            .map(|setter| format!("{setter} must set securityContext.capabilities.drop=[\"ALL\"]"));
        let details: Vec<String> =
            must_drop.into_iter().chain(self.forbidden_capabilities(&["NET_BIND_SERVICE"])).collect();
        (!details.is_empty()).then(|| format!("unrestricted capabilities ({})", details.join("; ")))
    }

    fn escalation(&self) -> Option<String> {
        let path = ["securityContext", "allowPrivilegeEscalation"];
        let bad = self.containers_where(|it| it.at(&path).and_then(Value::as_bool) != Some(false));
        let setter = setters(false, &bad)?;
        Some(format!(
            "allowPrivilegeEscalation != false ({setter} must set securityContext.allowPrivilegeEscalation=false)"
        ))
    }

    fn volumes(&self) -> Option<String> {
        const ALLOWED_VOLUME_TYPES: [&str; 9] = [
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "image",
            "persistentVolumeClaim",
            "projected",
            "secret",
        ];
        let volumes = self.spec.get("volumes").and_then(Value::as_list).unwrap_or_default();
        let is_bad = |volume: &&Value| ALLOWED_VOLUME_TYPES.iter().all(|field| volume.get(field).is_none());
        let bad: Vec<&Value> = volumes.iter().filter(is_bad).collect();
        let volume_type = |volume: &Value| {
            let fields = volume.as_map().into_iter().flat_map(|map| map.iter());
            let mut fields = fields.map(|(key, _)| key.to_string()).filter(|key| key != "name");
            fields.next().unwrap_or_else(|| "unknown".to_owned())
        };
        let types: BTreeSet<String> = bad.iter().map(|volume| volume_type(volume)).collect();
        let names: Vec<&str> = bad.iter().map(|volume| volume.str_at(&["name"])).collect();
        (!names.is_empty()).then(|| {
            let (word, use_) = (plural("volume", "volumes", names.len()), plural("uses", "use", names.len()));
            let noun = plural("restricted volume type", "restricted volume types", types.len());
            format!("restricted volume types ({word} {} {use_} {noun} {})", quoted(&names), quoted(&types))
        })
    }

    fn non_root(&self) -> Option<String> {
        let path = ["securityContext", "runAsNonRoot"];
        let own = self.security_context(&["runAsNonRoot"]).and_then(Value::as_bool);
        let given = |it: &Value| it.at(&path).and_then(Value::as_bool);
        let denied = self.containers_where(|it| given(it) == Some(false));
        if let Some(setter) = setters(own == Some(false), &denied) {
            return Some(format!(
                "runAsNonRoot != true ({setter} must not set securityContext.runAsNonRoot=false)"
            ));
        }
        let unset =
            if own == Some(true) { Vec::new() } else { self.containers_where(|it| given(it).is_none()) };
        let setter = setters(false, &unset)?;
        Some(format!("runAsNonRoot != true (pod or {setter} must set securityContext.runAsNonRoot=true)"))
    }

    fn user(&self) -> Option<String> {
        let is_root = |user: Option<&Value>| user.and_then(Value::as_i64) == Some(0);
        let bad = self.containers_where(|it| is_root(it.at(&["securityContext", "runAsUser"])));
        let setter = setters(is_root(self.security_context(&["runAsUser"])), &bad)?;
        Some(format!("runAsUser=0 ({setter} must not set runAsUser=0)"))
    }

    /// Seccomp violations: forbidden profiles and, if `is_required`, missing ones.
    fn seccomp(&self, is_required: bool) -> Option<String> {
        let is_bad = |profile: &Value| !matches!(profile.str_at(&["type"]), "RuntimeDefault" | "Localhost");
        let of = |it: &'a Value| it.at(&["securityContext", "seccompProfile"]);
        let own = self.security_context(&["seccompProfile"]);
        let with = self.containers().filter(|it| of(it).is_some_and(is_bad));
        let bad: Vec<&str> = with.map(|it| it.str_at(&["name"])).collect();
        if let Some(setter) = setters(own.is_some_and(is_bad), &bad) {
            let profiles = own.into_iter().chain(self.containers().filter_map(of)).filter(|it| is_bad(it));
            let types: BTreeSet<&str> = profiles.map(|it| it.str_at(&["type"])).collect();
            let types = quoted(types);
            return Some(format!(
                "seccompProfile ({setter} must not set securityContext.seccompProfile.type to {types})"
            ));
        }
        if !is_required || own.is_some() {
            return None;
        }
        let without = self.containers().filter(|it| of(it).is_none());
        let without: Vec<&str> = without.map(|it| it.str_at(&["name"])).collect();
        let setter = setters(false, &without)?;
        Some(format!(
            "seccompProfile (pod or {setter} must set securityContext.seccompProfile.type to \"RuntimeDefault\" \
             or \"Localhost\")"
        ))
    }
}

fn is_true(value: &Value, path: &[&str]) -> bool {
    value.at(path).and_then(Value::as_bool) == Some(true)
}
