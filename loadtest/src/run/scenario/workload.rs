//! The kinds of traffic and their sizes. A token is four bytes of text.

use serde::Deserialize;

use super::spread::{Count, Spread, Time};

/// One class of conversations, chosen by its weight.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub(crate) struct Class {
    pub(crate) weight: f64,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    SystemPrompts(SystemPrompts),
    Documents(Documents),
    Sessions(Sessions),
    Agents(Agents),
}

pub(crate) const KINDS: &str = "system_prompts, documents, sessions, agents";

/// Long texts that many requests share; number 1 is the most popular.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shared {
    pub(crate) count: usize,
    pub(crate) tokens: Spread<Count>,
    /// Exponent of Zipf's law; 0: all alike.
    #[serde(default = "one")]
    pub(crate) zipf: f64,
}

/// A single question under a shared system prompt.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SystemPrompts {
    pub(crate) system: Shared,
    #[serde(default = "short")]
    pub(crate) question_tokens: Spread<Count>,
    #[serde(default = "short")]
    pub(crate) answer_tokens: Spread<Count>,
}

/// Questions about a shared long document, each in a prompt of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Documents {
    pub(crate) document: Shared,
    #[serde(default = "few")]
    pub(crate) questions: Spread<Count>,
    #[serde(default = "short")]
    pub(crate) question_tokens: Spread<Count>,
    #[serde(default = "short")]
    pub(crate) answer_tokens: Spread<Count>,
    #[serde(default = "no_pause")]
    pub(crate) think: Spread<Time>,
}

/// A chat: each prompt is the one before, its answer and a new question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sessions {
    /// Without it a session begins with its own first question.
    pub(crate) system: Option<Shared>,
    #[serde(default = "few")]
    pub(crate) turns: Spread<Count>,
    #[serde(default = "short")]
    pub(crate) question_tokens: Spread<Count>,
    #[serde(default = "short")]
    pub(crate) answer_tokens: Spread<Count>,
    #[serde(default = "no_pause")]
    pub(crate) think: Spread<Time>,
}

/// A program that calls tools: each prompt is the one before, the call and what the tool said.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Agents {
    /// The agents there are; each has a system prompt and tools of its own.
    pub(crate) system: Shared,
    pub(crate) tools: usize,
    #[serde(default = "short")]
    pub(crate) tool_tokens: Spread<Count>,
    #[serde(default = "few")]
    pub(crate) steps: Spread<Count>,
    #[serde(default = "short")]
    pub(crate) task_tokens: Spread<Count>,
    pub(crate) result_tokens: Spread<Count>,
    #[serde(default = "short")]
    pub(crate) answer_tokens: Spread<Count>,
    /// How long a tool runs.
    #[serde(default = "no_pause")]
    pub(crate) tool_time: Spread<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default = "one")]
    weight: f64,
    system_prompts: Option<SystemPrompts>,
    documents: Option<Documents>,
    sessions: Option<Sessions>,
    agents: Option<Agents>,
}

const MOST_SHARED: usize = 1_000_000;
const MOST_TOOLS: usize = 1_000;

impl TryFrom<Written> for Class {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        if !(written.weight.is_finite() && written.weight >= 0.0) {
            return Err(format!(
                "workload.weight: {} is out of range; allowed: 0 or more",
                written.weight
            ));
        }
        let kinds = [
            written.system_prompts.map(Kind::SystemPrompts),
            written.documents.map(Kind::Documents),
            written.sessions.map(Kind::Sessions),
            written.agents.map(Kind::Agents),
        ];
        let mut kinds = kinds.into_iter().flatten();
        let (Some(kind), None) = (kinds.next(), kinds.next()) else {
            return Err(format!("workload: a class has exactly one of {KINDS}"));
        };
        if let Some((name, shared)) = kind.shared() {
            shared.check(&format!("workload.{}.{name}", kind.name()))?;
        }
        if let Kind::Agents(agents) = &kind
            && !(1..=MOST_TOOLS).contains(&agents.tools)
        {
            return Err(format!(
                "workload.agents.tools: {} is out of range; allowed: 1 to {MOST_TOOLS}",
                agents.tools
            ));
        }
        Ok(Self {
            weight: written.weight,
            kind,
        })
    }
}

impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::SystemPrompts(_) => "system_prompts",
            Self::Documents(_) => "documents",
            Self::Sessions(_) => "sessions",
            Self::Agents(_) => "agents",
        }
    }

    pub(crate) fn shared(&self) -> Option<(&'static str, &Shared)> {
        match self {
            Self::SystemPrompts(class) => Some(("system", &class.system)),
            Self::Documents(class) => Some(("document", &class.document)),
            Self::Sessions(class) => class.system.as_ref().map(|system| ("system", system)),
            Self::Agents(class) => Some(("system", &class.system)),
        }
    }
}

impl Shared {
    fn check(&self, path: &str) -> Result<(), String> {
        if !(1..=MOST_SHARED).contains(&self.count) {
            return Err(format!(
                "{path}.count: {} is out of range; allowed: 1 to {MOST_SHARED}",
                self.count
            ));
        }
        if !(self.zipf.is_finite() && self.zipf >= 0.0) {
            return Err(format!(
                "{path}.zipf: {} is out of range; allowed: 0 or more",
                self.zipf
            ));
        }
        Ok(())
    }
}

fn one() -> f64 {
    1.0
}

fn short() -> Spread<Count> {
    Spread::fixed(32.0)
}

fn few() -> Spread<Count> {
    Spread::fixed(4.0)
}

fn no_pause() -> Spread<Time> {
    Spread::fixed(0.0)
}
