import type { WorkspaceSpecInput } from "@berth/protocol/workspace"
import type { ModelReply, ModelScript, ScriptedPrompt } from "@berth/testing/model/script"
import { scriptedConfig } from "@berth/testing/opencode"

/** The port of the model inside a sandbox, which has a network of its own. */
export const MODEL_PORT = 4_199
const MODEL = `http://127.0.0.1:${MODEL_PORT}`

/** The prompt at which each agent's model makes a file. */
export const MAKE_A_FILE = "Please make a file."

/** Further prompts that the models answer. */
export const SAW_A_BIRD = "I saw a heron."
export const WHICH_BIRD = "Which bird was it?"
export const BE_REFUSED = "Be refused."
/** A prompt whose turn says something and never ends. */
export const HANG = "Take your time."
/** A prompt whose turn writes a note and never ends. The prompt that continues it reads the note. */
export const NOTE_IT = "Note it once."

const UNCLEAR = "Be unclear."

/** The fault that a model shows once before it answers, by the prompt. */
export const FAULTS = {
  "Be late.": { text: ["I am here."], delayMs: 2_000 },
  "Be slowed down.": { status: 429, message: "too many requests", retryAfterS: 1 },
  "Fall over.": { status: 500, message: "out of order" },
  "Be cut off.": { cutAfter: "I was " },
  [UNCLEAR]: { malformedAfter: "I was " },
} as const satisfies Record<string, ModelReply>

/** The key of the agents, which no stored data may hold. */
export const KEY = "sk-scripted-0123456789abcdef"

export interface RealAgent {
  readonly agent: WorkspaceSpecInput["agent"]
  readonly environment: Readonly<Record<string, string>>
  readonly script: ModelScript
  /** The agent's own words when the model refuses its key, and the code of that error. */
  readonly refused: string
  readonly refusal: "agent.failed" | "agent.not_set_up"
  /** The fault after which the agent does not ask again. */
  readonly givesUp?: keyof typeof FAULTS
}

/** Makes a script in which a model writes a file and reads it by a command, by these calls, and says so. */
const making = (...calls: [ModelReply, ...ModelReply[]]): ModelScript => [
  { prompt: MAKE_A_FILE, replies: [...calls, { text: ["It ", "is ", "made."], pauseMs: 300 }] },
  { prompt: SAW_A_BIRD, replies: [{ text: ["A fine bird."] }] },
  { prompt: WHICH_BIRD, replies: [{ text: ["A heron."] }] },
  { prompt: BE_REFUSED, replies: [{ status: 401, message: "no such key" }] },
  { prompt: HANG, replies: [{ hangAfter: "I be" }] },
  ...Object.entries(FAULTS).map(
    ([prompt, fault]): ScriptedPrompt => ({
      prompt,
      replies: [fault, { text: ["I am here."] }],
    }),
  ),
]

const OPENCODE_ENVIRONMENT = {
  OPENCODE_CONFIG_CONTENT: JSON.stringify(scriptedConfig(`${MODEL}/v1`, "{env:SCRIPTED_KEY}")),
  OPENCODE_DISABLE_MODELS_FETCH: "1",
  OPENCODE_DISABLE_AUTOUPDATE: "1",
}

const bash = (command: string): ModelReply => ({
  tool: "bash",
  arguments: { command, description: "runs it" },
})

const OPENCODE_SCRIPT: ModelScript = [
  ...making(
    { tool: "write", arguments: { filePath: "made.txt", content: "made\n" } },
    bash("cat made.txt"),
  ),
  { prompt: NOTE_IT, replies: [bash("echo noted >> notes.txt"), { hangAfter: "I be" }] },
  { prompt: "You were interrupted", replies: [bash("cat notes.txt"), { text: ["I went on."] }] },
]

export type AgentName = "opencode" | "opencode-acp" | "claude" | "codex"

/** The agents of all vendors, as their users set them up. */
export const AGENTS: Readonly<Record<AgentName, RealAgent>> = {
  opencode: {
    agent: { kind: "opencode", keys: ["SCRIPTED_KEY"] },
    environment: OPENCODE_ENVIRONMENT,
    script: OPENCODE_SCRIPT,
    refused: "no such key",
    refusal: "agent.failed",
    givesUp: UNCLEAR,
  },
  "opencode-acp": {
    agent: { kind: "acp", command: ["opencode", "acp"], keys: ["SCRIPTED_KEY"] },
    environment: OPENCODE_ENVIRONMENT,
    script: OPENCODE_SCRIPT,
    refused: "no such key",
    refusal: "agent.failed",
    givesUp: UNCLEAR,
  },
  claude: {
    agent: { kind: "claude", keys: ["ANTHROPIC_API_KEY"] },
    environment: { ANTHROPIC_BASE_URL: MODEL },
    script: making(
      { tool: "Write", arguments: { file_path: "/workspace/app/made.txt", content: "made\n" } },
      { tool: "Bash", arguments: { command: "cat made.txt", description: "reads it" } },
    ),
    refused: "Authentication required",
    refusal: "agent.not_set_up",
  },
  codex: {
    agent: { kind: "codex", keys: ["OPENAI_API_KEY"], model: "scripted-1" },
    environment: { OPENAI_BASE_URL: `${MODEL}/v1` },
    script: making(
      { tool: "exec_command", arguments: { cmd: "echo made > made.txt" } },
      { tool: "exec_command", arguments: { cmd: "cat made.txt" } },
    ),
    refused: "Authentication required",
    refusal: "agent.not_set_up",
  },
}

export const NAMES = Object.keys(AGENTS) as AgentName[]
