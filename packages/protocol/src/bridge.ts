import { z } from "zod"
import {
  MAX_AUTHOR_CHARS,
  MAX_BRANCH_CHARS,
  MAX_CREDENTIAL_CHARS,
  MAX_HAVE,
  MAX_MESSAGE_EVENTS,
  MAX_REASON_CHARS,
  MAX_SHALLOW,
  MAX_SUBMODULE_DEPTH,
  MAX_URL_CHARS,
} from "./bridge-limits.ts"
import { SandboxEvent, Sequence } from "./event.ts"
import { idWith, PromptId, SandboxId, SessionId } from "./ids.ts"
import { listOf } from "./list.ts"
import { AbsolutePath, RelativePath } from "./paths.ts"
import { AskAnswer, PromptDeadlineMs, PromptState, PromptText } from "./session.ts"
import { MAX_ATTACHMENTS } from "./session-limits.ts"
import { Environment, GitRef, HostPort } from "./workspace.ts"

const message = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.strictObject({ type: z.literal(type), ...shape })

/** The number of the last event that was seen; 0 before the first. */
const LastSeen = z.union([z.literal(0), Sequence])

/** The end of a prompt, and why. */
export const PromptResult = z.strictObject({
  state: PromptState.extract(["succeeded", "failed", "stopped", "interrupted"]),
  reason: z.string().max(MAX_REASON_CHARS).optional(),
})
export type PromptResult = z.infer<typeof PromptResult>

const standing = <State extends string, Shape extends z.ZodRawShape>(state: State, shape: Shape) =>
  z.strictObject({ state: z.literal(state), ...shape })

/** The progress of a supervisor with a prompt: unknown → accepted → started → ended. */
export const PromptStanding = z.discriminatedUnion("state", [
  standing("unknown", {}),
  standing("accepted", {}),
  standing("started", {}),
  standing("ended", { result: PromptResult }),
])
export type PromptStanding = z.infer<typeof PromptStanding>

/**
 * The id of a host request. The supervisor makes new ones after each of its starts, so that an answer to an earlier
 * request is never taken for another's.
 */
export const HostRequestId = idWith("ask")
export type HostRequestId = z.infer<typeof HostRequestId>

/** The id of a commit, in either of git's formats. */
export const CommitId = z.string().regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/, "must be a commit's id")

const ofKind = <Kind extends string, Shape extends z.ZodRawShape>(kind: Kind, shape: Shape) =>
  z.strictObject({ kind: z.literal(kind), ...shape })

/**
 * A submodule of a repo of the host: a commit that the ref holds, and the path there; for one inside of others, a path
 * in each.
 */
const Submodule = z.strictObject({
  of: CommitId,
  paths: listOf(RelativePath, { min: 1, max: MAX_SUBMODULE_DEPTH }),
})

/** A sandbox's request for something that only the server can reach. It is neither numbered nor journalled. */
export const HostRequest = z.discriminatedUnion("kind", [
  /** Asks for a repo of the host, by its directory in the plan. It is sent to `PUT /bundles/{id}` before the answer. */
  ofKind("repo", {
    repo: RelativePath,
    ref: GitRef.optional(),
    have: listOf(CommitId, { max: MAX_HAVE }),
    submodule: Submodule.optional(),
  }),
  /** Asks for a credential, in the words of git's credential protocol. */
  ofKind("credential", {
    protocol: z.string().min(1).max(16),
    host: z.string().min(1).max(MAX_URL_CHARS),
    path: z.string().max(MAX_URL_CHARS).optional(),
  }),
  /** Asks for the keys of the agent, as the plan names them. */
  ofKind("keys", {}),
  /**
   * Asks for a connection to a port of the host. The server opens `/host-ports/{id}`, which carries it, before the
   * answer.
   */
  ofKind("host-port", { port: HostPort }),
])
export type HostRequest = z.infer<typeof HostRequest>

export const HostAnswer = z.discriminatedUnion("kind", [
  ofKind("repo", {
    commit: CommitId,
    /** The branch that the ref names; absent for a tag or a commit. */
    branch: z.string().min(1).max(MAX_BRANCH_CHARS).optional(),
    /** False when the sandbox has the commit already: then nothing was sent. */
    bundled: z.boolean(),
    /** The commits whose parents a shallow repo does not have. */
    shallow: listOf(CommitId, { max: MAX_SHALLOW }).optional(),
    /** The author that git on the host would name for a commit in the repo, in one line each. */
    authorName: z.string().min(1).max(MAX_AUTHOR_CHARS).optional(),
    authorEmail: z.string().min(1).max(MAX_AUTHOR_CHARS).optional(),
    /** The submodule's address on a network. */
    url: z.string().min(1).max(MAX_URL_CHARS).optional(),
    /** Why the repo of the host does not have the submodule's commit. Then nothing was sent. */
    absent: z.string().min(1).max(MAX_REASON_CHARS).optional(),
  }),
  ofKind("credential", {
    username: z.string().max(MAX_CREDENTIAL_CHARS),
    password: z.string().max(MAX_CREDENTIAL_CHARS),
  }),
  ofKind("keys", { keys: Environment }),
  ofKind("host-port", {}),
  ofKind("refused", { code: z.string().max(128), reason: z.string().max(MAX_REASON_CHARS) }),
])
export type HostAnswer = z.infer<typeof HostAnswer>

/**
 * A message of the server to a supervisor. Its hello comes first on every connection. Any message may be sent again
 * after a break: a prompt is known by its id, and a repeat is answered with the prompt's standing.
 */
export const ServerMessage = z.discriminatedUnion("type", [
  message("hello", { generation: z.int(), sandbox: SandboxId, lastSeen: LastSeen }),
  /** The events up to this one are stored: the supervisor may forget them. */
  message("acknowledge", { upTo: Sequence }),
  message("prompt.start", {
    prompt: PromptId,
    session: SessionId,
    text: PromptText,
    /** Files in the sandbox that came with the prompt. */
    attachments: z.array(AbsolutePath).max(MAX_ATTACHMENTS).optional(),
    /** The time from the prompt's start. */
    deadlineMs: PromptDeadlineMs.optional(),
    /** Set where the prompt is not for the sandbox's own agent. */
    agent: z.literal("shell").optional(),
  }),
  message("prompt.stop", { prompt: PromptId }),
  /** The answer to an agent's question while this prompt runs. If the agent no longer waits for it, nothing happens. */
  message("prompt.answer", { prompt: PromptId, answer: AskAnswer }),
  /** The answer to a host request. The supervisor ignores it if it no longer waits for it. */
  message("answer", { id: HostRequestId, answer: HostAnswer }),
])
export type ServerMessage = z.infer<typeof ServerMessage>

/** A prompt as a supervisor gets it. */
export type PromptStart = Omit<Extract<ServerMessage, { type: "prompt.start" }>, "type">

/** A message of a supervisor to the server. Its hello answers the server's; then come the events after `lastSeen`. */
export const SupervisorMessage = z.discriminatedUnion("type", [
  message("hello", {
    generation: z.int(),
    sandbox: SandboxId,
    /** The first event that the supervisor holds; one above `last` when it holds none. */
    first: Sequence,
    last: LastSeen,
  }),
  message("events", { events: listOf(SandboxEvent, { min: 1, max: MAX_MESSAGE_EVENTS }) }),
  /** The answer to prompt.start, prompt.stop and prompt.answer: the standing is on disk. */
  message("prompt.standing", { prompt: PromptId, standing: PromptStanding }),
  /** The other answer: nothing was done, and why. */
  message("prompt.refused", {
    prompt: PromptId,
    code: z.string().max(128),
    reason: z.string().max(MAX_REASON_CHARS),
  }),
  /** A host request, sent again on each new connection until it is answered. Earlier supervisors call it so, too. */
  message("ask", { id: HostRequestId, ask: HostRequest }),
])
export type SupervisorMessage = z.infer<typeof SupervisorMessage>

/** The answer of `GET /health` on a sandbox's socket. */
export const SupervisorHealth = z.strictObject({
  generation: z.int(),
  sandbox: SandboxId,
  uptimeMs: z.number().min(0),
  /** Whether the last required step of the boot is done, so that prompts pass. */
  ready: z.boolean(),
  /** Prompts that wait or run. */
  prompts: z.int().min(0),
})
export type SupervisorHealth = z.infer<typeof SupervisorHealth>
