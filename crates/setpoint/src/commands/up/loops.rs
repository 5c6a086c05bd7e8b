//! The loop beside the server: which controllers run.

use anyhow::bail;
use setpoint_reconcile::{Controller, Engine};

/// Which controllers run, as in `*,-replicaset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    rest: bool,
    named: Vec<(String, bool)>,
}

/// Reads a choice: names of controllers, those with a dash are off, `*` stands for all that are not named.
pub fn choice(text: &str) -> anyhow::Result<Choice> {
    let mut choice = Choice { rest: false, named: Vec::new() };
    let known: Vec<&str> = setpoint_controllers::all().iter().map(|controller| controller.name()).collect();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if word == "*" {
            choice.rest = true;
            continue;
        }
        let (name, on) = word.strip_prefix('-').map_or((word, true), |name| (name, false));
        if !known.iter().any(|known| is(known, name)) {
            bail!("there is no controller {name:?}: there are {}", known.join(", "));
        }
        choice.named.push((name.to_owned(), on));
    }
    Ok(choice)
}

impl Choice {
    fn takes(&self, controller: &str) -> bool {
        let named = self.named.iter().find(|(name, _)| is(controller, name));
        named.map_or(self.rest, |(_, on)| *on)
    }

    /// The loop over the controllers of the choice.
    pub fn engine(&self) -> Engine {
        let all = setpoint_controllers::all().into_iter();
        let chosen: Vec<Box<dyn Controller>> =
            all.filter(|controller| self.takes(controller.name())).collect();
        Engine::new(chosen, setpoint_controllers::indexes::all())
    }
}

/// Whether a controller is meant by a name: its own, or that without its last word.
fn is(controller: &str, name: &str) -> bool {
    controller == name || controller.strip_suffix("-controller") == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_chosen_by_name() {
        let all = choice("*").unwrap();
        assert!(all.takes("replicaset-controller"));
        for off in ["*,-replicaset", "*,-replicaset-controller", ""] {
            assert!(!choice(off).unwrap().takes("replicaset-controller"), "{off}");
        }
        let one = choice("replicaset").unwrap();
        assert!(one.takes("replicaset-controller") && !one.takes("deployment-controller"));
        assert!(choice("*,-replicasets").unwrap_err().to_string().contains("replicaset-controller"));
    }
}
