//! Who serves what, as far as the file tells: a rule that counts pods has to count those that share a model's requests.

use std::collections::BTreeMap;

use super::super::{Config, Model};
use crate::fleet::settings::PodSpec;

pub(super) struct Served<'a> {
    pods: &'a [PodSpec],
    /// By model; `None` while a pod is to be asked what it serves.
    told: Option<BTreeMap<&'a str, Vec<&'a PodSpec>>>,
}

/// Pods that share requests.
pub(super) struct Group<'a> {
    /// `None`: all the pods there are, since nobody says what they serve.
    model: Option<&'a str>,
    pub(super) pods: Vec<&'a PodSpec>,
}

impl<'a> Served<'a> {
    pub(super) fn new(config: &'a Config) -> Self {
        let mut told = Some(BTreeMap::<_, Vec<_>>::new());
        for pod in &config.pods {
            let (Some(groups), Some(models)) = (&mut told, &pod.models) else {
                told = None;
                break;
            };
            for model in models {
                groups.entry(model.as_str()).or_default().push(pod);
            }
        }
        Self {
            pods: &config.pods,
            told,
        }
    }

    /// The groups of all models.
    pub(super) fn groups(&self) -> Vec<Group<'a>> {
        match &self.told {
            Some(told) => told
                .iter()
                .map(|(model, pods)| Group {
                    model: Some(*model),
                    pods: pods.clone(),
                })
                .collect(),
            None => vec![self.everyone()],
        }
    }

    /// Those of a model and of its aliases; none when no pod serves it.
    pub(super) fn groups_of(&self, name: &str, model: &Model) -> Vec<Group<'a>> {
        let mut groups = self.groups();
        groups.retain(|group| group.model.is_none() || group.serves(name, model));
        groups
    }

    fn everyone(&self) -> Group<'a> {
        Group {
            model: None,
            pods: self.pods.iter().collect(),
        }
    }
}

impl Group<'_> {
    /// Whether it is told to be of this model, by its name or an alias.
    pub(super) fn serves(&self, name: &str, model: &Model) -> bool {
        self.model
            .is_some_and(|served| served == name || model.aliases.iter().any(|one| one == served))
    }

    /// `the 4 pods that serve m-a`, or `4 pods`.
    pub(super) fn shown(&self) -> String {
        let count = self.pods.len();
        match self.model {
            Some(model) => format!("the {count} pods that serve {model}"),
            None => format!("{count} pods"),
        }
    }
}
