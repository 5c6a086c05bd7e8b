//! Common kubectl commands of a new user, with every kubectl on the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Server, clients_dir};

const MANIFEST: &str = include_str!("newcomer.yaml");
const CRON_TABS: &str = include_str!("crontabs.yaml");

/// Objects of `newcomer.yaml`, each by a name that users type.
const OBJECTS: [&str; 20] = [
    "cm/walk-config",
    "secret/walk-secret",
    "sa/walk-account",
    "svc/walk-service",
    "pvc/walk-claim",
    "po/walk-pod",
    "deploy/walk-deployment",
    "sts/walk-set",
    "ds/walk-daemon",
    "job/walk-job",
    "cronjob/walk-cron",
    "ing/walk-ingress",
    "netpol/walk-policy",
    "hpa/walk-scaler",
    "pdb/walk-budget",
    "role/walk-role",
    "rolebinding/walk-binding",
    "quota/walk-quota",
    "limits/walk-limits",
    "pc/walk-priority",
];

/// Returns every kubectl: the one that `scripts/test` unpacks, those in `PATH`, `kubectl.1.29` and the like
/// beside them, and those that `SETPOINT_KUBECTLS` lists. Several names of one file count once.
pub fn kubectls() -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect();
    // A link in `PATH` often leads to the directory of the other versions.
    let behind: Vec<PathBuf> =
        dirs.iter().filter_map(|dir| dir.join("kubectl").canonicalize().ok()).collect();
    dirs.extend(behind.iter().filter_map(|file| file.parent()).map(Path::to_owned));
    let listed = std::env::var_os("SETPOINT_KUBECTLS").unwrap_or_default();
    dirs.push(clients_dir().join("kubectl"));
    let files = dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten();
    let found = files.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let version = name.strip_prefix("kubectl").map(|rest| rest.trim_start_matches(['-', '.', 'v']));
        version.is_some_and(|version| version.is_empty() || version.starts_with("1."))
    });
    let found = found.chain(std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()));
    let distinct: BTreeMap<PathBuf, PathBuf> =
        found.map(|path| (path.canonicalize().unwrap_or_else(|_| path.clone()), path)).collect();
    assert!(!distinct.is_empty(), "no kubectl on this machine: scripts/test installs one");
    distinct.into_values().collect()
}

/// One kubectl and its server.
struct Session {
    kubectl: PathBuf,
    minor: u32,
    server: Server,
}

impl Session {
    fn new(kubectl: PathBuf) -> Session {
        let server = Server::start();
        let mut walk = Session { kubectl, minor: 0, server };
        let text = walk.run(&["version", "--client", "-o", "json"], "").1;
        let minor = text.split_once("\"minor\": \"").unwrap_or_else(|| panic!("{text}")).1;
        walk.minor = minor.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        std::fs::write(walk.server.dir().join("walk.yaml"), MANIFEST).unwrap();
        walk
    }

    fn run(&self, args: &[&str], input: &str) -> (bool, String) {
        let mut command = Command::new(&self.kubectl);
        command.args(args).current_dir(self.server.dir());
        self.server.run(&mut command, input)
    }

    /// Runs a command that must succeed. Returns its output.
    fn ok(&self, args: &[&str], expected: &str) -> String {
        let (ok, text) = self.run(args, "");
        let name = self.kubectl.display();
        assert!(ok && text.contains(expected), "{name} {args:?} should say {expected:?}: {text}");
        text
    }

    /// Runs a command that must fail with the expected message.
    fn fails(&self, args: &[&str], input: &str, expected: &str) {
        let (ok, text) = self.run(args, input);
        let name = self.kubectl.display();
        assert!(!ok && text.contains(expected), "{name} {args:?} should fail with {expected:?}: {text}");
    }

    /// Edits an object with `kubectl edit` and `sed` as the editor.
    fn edit(&self, object: &str, script: &str) -> (bool, String) {
        let mut command = Command::new(&self.kubectl);
        command.args(["edit", object]).env("KUBE_EDITOR", format!("sed -i {script}"));
        self.server.run(command.env("TMPDIR", self.server.dir()), "")
    }

    fn check_reads(&self) {
        self.ok(&["version"], "v1.37.0");
        self.ok(&["cluster-info"], "is running at");
        self.ok(&["api-versions"], "networking.k8s.io/v1");
        self.ok(&["api-resources", "--namespaced=false", "--verbs=list", "-o", "wide"], "priorityclasses");
        self.ok(&["get", "namespaces"], "kube-system");
        self.ok(&["explain", "pod", "--recursive"], "topologySpreadConstraints");
        for (field, expected) in [
            ("deploy.spec.replicas", "integer"),
            ("cronjobs.spec.jobTemplate.spec.template.spec.containers.image", "string"),
            ("ingress.spec.rules.http.paths.pathType", "pathType"),
            ("hpa.spec.maxReplicas", "integer"),
            ("networkpolicy.spec.podSelector.matchExpressions", "operator"),
        ] {
            self.ok(&["explain", field], expected);
        }
    }

    fn check_creates(&self) {
        let text = self.ok(&["create", "-f", "walk.yaml"], "configmap/walk-config created");
        assert_eq!(text.matches(" created").count(), OBJECTS.len(), "{text}");
        let formats = [
            "wide",
            "yaml",
            "json",
            "name",
            "jsonpath={.items[*].metadata.name}",
            "custom-columns=N:.metadata.name,V:.metadata.resourceVersion",
            "go-template={{range .items}}{{.metadata.name}} {{end}}",
        ];
        for format in formats {
            let text = self.ok(&["get", "-f", "walk.yaml", "-o", format], "walk-config");
            for object in OBJECTS {
                assert!(text.contains(object.split_once('/').unwrap().1), "{object} in {format}: {text}");
            }
        }
        let mut everything = vec!["get"];
        everything.extend(OBJECTS);
        self.ok(&everything, "NAME                    DATA   AGE\nconfigmap/walk-config   1      ");
        self.ok(&["get", "all"], "deployment.apps/walk-deployment   0/2     0            0           ");
        for object in OBJECTS {
            // Those versions of kubectl describe them by beta versions that have been removed.
            if self.minor < 21 && ["cronjob/walk-cron", "pdb/walk-budget"].contains(&object) {
                continue;
            }
            self.ok(&["describe", object], object.split_once('/').unwrap().1);
        }
    }

    fn check_updates(&self) {
        self.ok(&["label", "-f", "walk.yaml", "walked=yes"], "configmap/walk-config labeled");
        self.ok(&["annotate", "-f", "walk.yaml", "note=seen"], "configmap/walk-config annotate");
        self.ok(&["get", "cm,svc,deploy,job", "-l", "walked in (yes),!absent", "-A"], "job.batch/walk-job");
        self.ok(
            &["get", "po", "--field-selector", "metadata.name=walk-pod,status.phase=Pending"],
            "walk-pod",
        );
        let (ok, text) = self.edit("cm/walk-config", "s/blue/green/");
        assert!(ok && text.contains("configmap/walk-config edited"), "{text}");
        let (ok, text) = self.edit("deploy/walk-deployment", "s/replicas:.2/replicas:.-2/");
        assert!(!ok && text.contains("is invalid"), "{text}");
        self.ok(&["get", "cm", "walk-config", "-o", "jsonpath={.data.colour}"], "green");
        for object in ["deploy/walk-deployment", "sts/walk-set"] {
            self.ok(&["scale", object, "--replicas=4"], "scaled");
            self.ok(&["get", object, "-o", "jsonpath={.spec.replicas}"], "4");
        }
        for (form, patch, replicas) in [
            ("strategic", r#"{"spec":{"replicas":5}}"#, "5"),
            ("merge", r#"{"spec":{"replicas":6}}"#, "6"),
            ("json", r#"[{"op":"replace","path":"/spec/replicas","value":7}]"#, "7"),
        ] {
            self.ok(&["patch", "deploy", "walk-deployment", "--type", form, "-p", patch], "patched");
            self.ok(&["get", "deploy/walk-deployment", "-o", "jsonpath={.spec.replicas}"], replicas);
        }
        self.ok(&["set", "image", "deploy/walk-deployment", "main=nginx:1.28"], "image updated");
        self.ok(&["expose", "deploy", "walk-deployment", "--name=exposed"], "service/exposed exposed");
        self.ok(&["autoscale", "deploy", "walk-deployment", "--max=4", "--name=scaled"], "autoscaled");
        self.ok(&["run", "ran", "--image=busybox"], "pod/ran created");
        self.ok(&["auth", "can-i", "create", "pods"], "yes");
    }

    fn check_apply_and_delete(&self) {
        self.fails(&["diff", "-f", "walk.yaml"], "", "-  replicas: 7\n+  replicas: 2");
        self.ok(&["apply", "-f", "walk.yaml"], "deployment.apps/walk-deployment configured");
        let again = self.ok(&["apply", "-f", "walk.yaml"], "deployment.apps/walk-deployment unchanged");
        // Some fields are always sent again: `stringData` is never read back, a selector is replaced as a
        // whole, and an old kubectl lacks some types.
        let restless =
            ["secret/walk-secret", "poddisruptionbudget.policy/walk-budget", "cronjob.batch/walk-cron"];
        for line in again.lines() {
            let object = line.split(' ').next().unwrap();
            assert!(
                line.ends_with(" unchanged") || restless.contains(&object),
                "{}: {again}",
                self.kubectl.display()
            );
        }
        self.ok(&["diff", "-f", "walk.yaml"], "");
        self.ok(
            &["apply", "--server-side", "--field-manager=walk", "--force-conflicts", "-f", "walk.yaml"],
            "serverside-applied",
        );
        if self.minor >= 23 {
            let wanted = "--for=jsonpath={.spec.replicas}=2";
            self.ok(&["wait", wanted, "deploy/walk-deployment", "--timeout=20s"], "condition met");
        }
        let forever = ["wait", "--for=condition=Available", "deploy/walk-deployment", "--timeout=1s"];
        self.fails(&forever, "", "timed out waiting");
        self.ok(&["delete", "pod", "ran", "--grace-period=0", "--force"], "deleted");
        let text = self.ok(&["delete", "-f", "walk.yaml", "--wait=false"], "deleted");
        assert_eq!(text.matches(" deleted").count(), OBJECTS.len(), "{text}");
        self.fails(&["get", "-f", "walk.yaml"], "", "configmaps \"walk-config\" not found");
    }

    fn check_mistakes(&self) {
        let bad = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Bad_Name}\n";
        self.fails(&["create", "-f", "-"], bad, "metadata.name: Invalid value: \"Bad_Name\"");
        self.fails(&["get", "configmap", "nothing"], "", "configmaps \"nothing\" not found");
        self.fails(&["get", "things"], "", "doesn't have a resource type \"things\"");
        let elsewhere = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: nowhere}\n";
        self.fails(&["create", "-f", "-"], elsewhere, "namespaces \"nowhere\" not found");
        let unknown = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {container: []}\n";
        self.fails(&["create", "-f", "-"], unknown, "container");
        let wrong = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {replicas: two}\n";
        self.fails(&["create", "-f", "-"], wrong, "");
        let old = "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: x}\n";
        self.fails(&["create", "-f", "-"], old, "no matches for kind \"Deployment\"");
        self.ok(&["create", "configmap", "twice"], "created");
        self.fails(&["create", "configmap", "twice"], "", "configmaps \"twice\" already exists");
        self.fails(&["label", "cm", "twice", "a=b c"], "", "a valid label must be");
        self.fails(&["get", "cm", "-l", "a in (b"], "", "unable to parse requirement");
        self.fails(
            &["get", "cm", "--field-selector", "spec.x=1"],
            "",
            "\"spec.x\" is not a known field selector",
        );
        self.ok(&["get", "pods", "-n", "nowhere"], "No resources found in nowhere namespace");
    }

    /// Applies an object that is given as text.
    fn apply(&self, text: &str) -> (bool, String) {
        self.run(&["apply", "-f", "-"], text)
    }

    fn check_definition(&self) {
        std::fs::write(self.server.dir().join("crd.yaml"), CRON_TABS).unwrap();
        let name = "customresourcedefinition.apiextensions.k8s.io/crontabs.stable.example.com";
        self.ok(&["apply", "-f", "crd.yaml"], &format!("{name} created"));
        self.ok(&["wait", "--for=condition=Established", name, "--timeout=60s"], "condition met");
        self.ok(&["apply", "-f", "crd.yaml"], &format!("{name} unchanged"));
        self.ok(&["get", "crd"], "crontabs.stable.example.com");
        let listed = self.ok(&["api-resources", "--api-group=stable.example.com"], "CronTab");
        assert!(listed.contains("crontabs") && listed.contains(" ct "), "{listed}");
    }

    fn check_instances(&self) {
        let tab = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: my-tab}\n";
        let tab = format!("{tab}spec: {{cronSpec: hourly, image: busybox}}\n");
        for word in ["created", "unchanged"] {
            let (ok, text) = self.apply(&tab);
            assert!(ok && text.contains(&format!("crontab.stable.example.com/my-tab {word}")), "{text}");
        }
        let cells = |args: &[&str]| -> Vec<Vec<String>> {
            let text = self.ok(args, "NAME");
            text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
        };
        let table = cells(&["get", "ct"]);
        assert_eq!(table[0], ["NAME", "SPEC", "REPLICAS", "AGE"]);
        assert_eq!(table[1][..3], ["my-tab", "hourly", "1"]);
        let wide = cells(&["get", "crontabs", "-o", "wide"]);
        assert_eq!(wide[0], ["NAME", "SPEC", "REPLICAS", "IMAGE", "AGE"]);
        assert_eq!(wide[1][..4], ["my-tab", "hourly", "1", "busybox"]);
        self.ok(&["get", "all"], "crontab.stable.example.com/my-tab");
        self.ok(&["describe", "ct", "my-tab"], "Cron Spec:");
        self.ok(&["get", "ct", "--field-selector", "spec.image=busybox"], "my-tab");
        self.ok(&["get", "ct", "--field-selector", "spec.image=other"], "No resources found");
        self.ok(&["scale", "ct/my-tab", "--replicas=3"], "scaled");
        self.ok(
            &["patch", "ct", "my-tab", "--type=merge", "-p", r#"{"spec":{"cronSpec":"daily"}}"#],
            "patched",
        );
        self.ok(&["get", "ct", "my-tab", "-o", "jsonpath={.spec.cronSpec} {.spec.replicas}"], "daily 3");
        let (ok, text) = self.apply(&tab.replace("hourly", "hourly, replicas: 10"));
        assert!(!ok && text.contains("spec.replicas in body should be less than or equal to 9"), "{text}");
        let (ok, text) = self.apply(&tab.replace("cronSpec", "cron"));
        assert!(!ok && text.contains("unknown field"), "{text}");
    }

    fn check_explanations(&self) {
        self.ok(&["explain", "crontab"], "A command that runs at some times.");
        self.ok(&["explain", "ct.spec"], "When and how the command runs.");
        self.ok(&["explain", "crontabs.spec.cronSpec"], "Times in the format of cron.");
        let fields = self.ok(&["explain", "ct", "--recursive"], "cronSpec");
        assert!(fields.contains("replicas") && fields.contains("ownerReferences"), "{fields}");
    }

    fn check_definition_is_deleted(&self) {
        self.ok(&["delete", "-f", "crd.yaml", "--timeout=60s"], "deleted");
        self.fails(&["get", "crd", "crontabs.stable.example.com"], "", "not found");
        self.fails(&["get", "ct", "my-tab"], "", "");
    }
}

#[test]
fn custom_resources_work_with_every_kubectl() {
    std::thread::scope(|scope| {
        for kubectl in kubectls() {
            scope.spawn(|| {
                let walk = Session::new(kubectl);
                walk.check_definition();
                walk.check_instances();
                walk.check_explanations();
                walk.check_definition_is_deleted();
            });
        }
    });
}

#[test]
fn common_commands_work_with_every_kubectl() {
    std::thread::scope(|scope| {
        let walks: Vec<_> = kubectls()
            .into_iter()
            .map(|kubectl| {
                scope.spawn(|| {
                    let walk = Session::new(kubectl);
                    walk.check_reads();
                    walk.check_creates();
                    walk.check_updates();
                    walk.check_apply_and_delete();
                })
            })
            .collect();
        for walk in walks {
            walk.join().unwrap();
        }
    });
}

#[test]
fn common_mistakes_get_clear_errors() {
    std::thread::scope(|scope| {
        for kubectl in kubectls() {
            scope.spawn(|| Session::new(kubectl).check_mistakes());
        }
    });
}
