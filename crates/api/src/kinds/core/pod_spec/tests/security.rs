//! Validation of security contexts.

use super::{check, check_container};

#[test]
fn ids_and_policies_are_validated() {
    check(&[
        (r#""securityContext":{"runAsUser":0,"fsGroup":2147483647,"fsGroupChangePolicy":"Always"}"#, &[]),
        (
            r#""securityContext":{"runAsUser":-1,"runAsGroup":2147483648,"fsGroup":-2,"supplementalGroups":[-3],"fsGroupChangePolicy":"x","supplementalGroupsPolicy":"y","seLinuxChangePolicy":"z"}"#,
            &[
                "spec.securityContext.fsGroup: Invalid value: -2: must be between 0 and 2147483647, inclusive",
                "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "spec.securityContext.runAsGroup: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive",
                "spec.securityContext.supplementalGroups[0]: Invalid value: -3: must be between 0 and 2147483647, inclusive",
                r#"spec.securityContext.fsGroupChangePolicy: Unsupported value: "x": supported values: "Always", "OnRootMismatch""#,
                r#"spec.securityContext.supplementalGroupsPolicy: Unsupported value: "y": supported values: "Merge", "Strict""#,
                r#"spec.securityContext.seLinuxChangePolicy: Unsupported value: "z": supported values: "MountOption", "Recursive""#,
            ],
        ),
        (
            r#""hostPID":true,"shareProcessNamespace":true"#,
            &[
                "spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
            ],
        ),
    ]);
}

#[test]
fn sysctls_exclude_host_namespaces() {
    let shape = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    check(&[
        (
            r#""securityContext":{"sysctls":[{"name":"net.ipv4.tcp_x","value":"1"},{"name":"kernel/shmmax","value":"1"}]}"#,
            &[],
        ),
        (
            r#""securityContext":{"sysctls":[{"name":"","value":"1"},{"name":"A","value":"1"},{"name":"a.b","value":"1"},{"name":"a.b","value":"2"}]}"#,
            &[
                "spec.securityContext.sysctls[0].name: Required value",
                &format!(r#"spec.securityContext.sysctls[1].name: Invalid value: "A": {shape}"#),
                r#"spec.securityContext.sysctls[3].name: Duplicate value: "a.b""#,
            ],
        ),
        (
            r#""hostNetwork":true,"hostIPC":true,"securityContext":{"sysctls":[{"name":"net/core/x","value":"1"},{"name":"kernel.shm_rmid_forced","value":"1"},{"name":"kernel.shmother","value":"1"}]}"#,
            &[
                r#"spec.securityContext.sysctls[0].name: Invalid value: "net/core/x": may not be specified when 'hostNetwork' is true"#,
                r#"spec.securityContext.sysctls[1].name: Invalid value: "kernel.shm_rmid_forced": may not be specified when 'hostIPC' is true"#,
            ],
        ),
    ]);
}

#[test]
fn security_profiles_are_validated() {
    check_container(&[
        (
            r#""securityContext":{"seccompProfile":{"type":"RuntimeDefault"},"appArmorProfile":{"type":"Localhost","localhostProfile":"x"}}"#,
            &[],
        ),
        (
            r#""securityContext":{"seccompProfile":{"type":""}}"#,
            &[
                "securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set",
            ],
        ),
        (
            r#""securityContext":{"seccompProfile":{"type":"Localhost"}}"#,
            &[
                "securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
            ],
        ),
        (
            r#""securityContext":{"seccompProfile":{"type":"Unconfined","localhostProfile":"x"}}"#,
            &[
                r#"securityContext.seccompProfile.localhostProfile: Invalid value: {"Type":"Unconfined","LocalhostProfile":"x"}: can only be set when seccomp type is Localhost"#,
            ],
        ),
        (
            r#""securityContext":{"appArmorProfile":{"type":"Odd"}}"#,
            &[
                r#"securityContext.appArmorProfile.type: Unsupported value: "Odd": supported values: "Localhost", "RuntimeDefault", "Unconfined""#,
            ],
        ),
        (
            r#""securityContext":{"appArmorProfile":{"type":"Localhost","localhostProfile":" x"}}"#,
            &[
                r#"securityContext.appArmorProfile.localhostProfile: Invalid value: " x": must not be padded with whitespace"#,
            ],
        ),
        (
            r#""securityContext":{"appArmorProfile":{"type":"Unconfined","localhostProfile":"x"}}"#,
            &[
                r#"securityContext.appArmorProfile.localhostProfile: Invalid value: "x": can only be set when AppArmor type is Localhost"#,
            ],
        ),
    ]);
}

#[test]
fn privileged_container_cannot_forbid_escalation() {
    check_container(&[
        (r#""securityContext":{"privileged":true,"procMount":"Default"}"#, &[]),
        (
            r#""securityContext":{"procMount":"Unmasked"}"#,
            &[
                r#"securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`"#,
            ],
        ),
        (
            r#""securityContext":{"privileged":true,"allowPrivilegeEscalation":false}"#,
            &[
                r#"securityContext: Invalid value: {"Capabilities":null,"Privileged":true,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,"AppArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"#,
            ],
        ),
        (
            r#""securityContext":{"capabilities":{"add":["CAP_SYS_ADMIN"]},"allowPrivilegeEscalation":false}"#,
            &[
                r#"securityContext: Invalid value: {"Capabilities":{"Add":["CAP_SYS_ADMIN"],"Drop":null},"Privileged":null,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,"AppArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"#,
            ],
        ),
    ]);
}

#[test]
fn user_namespace_excludes_host_namespaces() {
    check(&[
        (r#""hostUsers":false"#, &[]),
        (
            r#""hostUsers":false,"hostNetwork":true,"hostPID":true,"hostIPC":true"#,
            &[
                "spec.hostNetwork: Forbidden: when `hostUsers` is false",
                "spec.HostPID: Forbidden: when `hostUsers` is false",
                "spec.HostIPC: Forbidden: when `hostUsers` is false",
            ],
        ),
        (
            r#""hostUsers":false,"volumes":[{"name":"p","persistentVolumeClaim":{"claimName":"x"}}],"containers":[{"name":"c","image":"i:1","volumeDevices":[{"name":"p","devicePath":"/d"}]}]"#,
            &["spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false"],
        ),
    ]);
}

#[test]
fn options_depend_on_the_operating_system() {
    let windows = |options: &str| format!(r#""securityContext":{{"windowsOptions":{{{options}}}}}"#);
    check(&[
        (r#""os":{"name":"linux"},"securityContext":{"runAsUser":1}"#, &[]),
        (r#""os":{"name":""}"#, &["spec.os.name: Required value"]),
        (
            r#""os":{"name":"plan9"}"#,
            &[r#"spec.os: Unsupported value: "plan9": supported values: "linux", "windows""#],
        ),
        (
            &format!(r#""os":{{"name":"linux"}},{}"#, windows(r#""runAsUserName":"u""#)),
            &[
                "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
            ],
        ),
        (
            r#""os":{"name":"windows"},"hostPID":true,"securityContext":{"runAsUser":1,"sysctls":[{"name":"a","value":"b"}]},"containers":[{"name":"c","image":"i:1","securityContext":{"privileged":false}}]"#,
            &[
                "spec.securityContext.sysctls: Forbidden: cannot be set for a windows pod",
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
                "spec.hostPID: Forbidden: cannot be set for a windows pod",
                "spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
            ],
        ),
        (&windows(r#""runAsUserName":"DOMAIN\\user","gmsaCredentialSpecName":"a.b""#), &[]),
        (
            &windows(r#""runAsUserName":"","gmsaCredentialSpec":"""#),
            &[
                r#"spec.securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string"#,
                r#"spec.securityContext.windowsOptions.runAsUserName: Invalid value: "": runAsUserName cannot be an empty string"#,
            ],
        ),
        (
            &windows(r#""runAsUserName":"a\\b\\c""#),
            &[
                r#"spec.securityContext.windowsOptions.runAsUserName: Invalid value: "a\\b\\c": runAsUserName cannot contain more than one backslash"#,
            ],
        ),
        (
            &windows(r#""runAsUserName":".x*y\\...""#),
            &[
                r#"spec.securityContext.windowsOptions.runAsUserName: Invalid value: ".x*y\\...": runAsUserName's Domain doesn't match the NetBios nor the DNS format"#,
                r#"spec.securityContext.windowsOptions.runAsUserName: Invalid value: ".x*y\\...": runAsUserName's User cannot contain only periods or spaces"#,
            ],
        ),
        (
            &windows(r#""hostProcess":true"#),
            &[
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
            ],
        ),
        (
            r#""hostNetwork":true,"securityContext":{"windowsOptions":{"hostProcess":true}},"containers":[{"name":"c","image":"i:1","securityContext":{"windowsOptions":{"hostProcess":false}}},{"name":"d","image":"i:1"}]"#,
            &[
                "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true",
                "spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers",
            ],
        ),
    ]);
}
