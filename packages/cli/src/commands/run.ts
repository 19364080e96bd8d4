import { BerthError } from "@berth/protocol/errors"
import type { Event, EventBody } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { type Prompt, PromptText } from "@berth/protocol/session"
import { directoryOfRepo } from "@berth/protocol/workspace"
import type { Client } from "@berth/sdk/client"
import type { Session } from "@berth/sdk/sessions"
import { watchPrompt } from "@berth/sdk/watch-prompt"
import { AskAnswers } from "../answer-asks.ts"
import { BootWaits } from "../boot-waits.ts"
import { type CommandContext, type DefineCommand, toJsonLine } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { DONE, FAILED, LEFT } from "../exit-status.ts"
import { preparingLine } from "../preparing-line.ts"
import { renderError } from "../render-error.ts"
import { sessionFor } from "../run-place.ts"
import { sayChanges } from "../say-changes.ts"
import { Screen } from "../screen.ts"
import { connectForLong, findSandbox } from "../server.ts"
import { leftBySecondSignal } from "../signals.ts"
import { stopPrompt } from "../stop-prompt.ts"
import { printable } from "../terminal.ts"
import { addWorkspaceFlags, workspaceFlags } from "../workspace-flags.ts"

const HELP = `
The prompt runs in the workspace of the current repo, which is made if there is none, or in the workspace or session
that is named. Flags that describe the workspace change it for later prompts too, and the command says so; the rest
stays as it is. Only --agent shell is for the new session alone if the workspace has another agent: a command in the
sandbox as it runs. berth up --agent shell sets it for the workspace. With --detach --json, "set" has the changes.
If a change needs another sandbox and somebody uses the old one, the command waits; a session between its prompts
goes on in the next one.

The agent's words are written to standard output as they come, and a diff of uncommitted changes at the end;
everything else is written to standard error. The exit status is 0 if the prompt succeeded.

The server fetches Claude and Codex when they are first used, which takes a while; the progress is shown. With
--permissions ask the agent waits for your word before each command and edit; with deny it may do neither. The
repo's own configuration of the agent is not loaded then.

Ctrl-c stops the prompt; a second one leaves at once. The prompt goes on if this command ends in any other way:
berth log shows it. If the server is restarted meanwhile, the command waits for it.

Examples:
  berth run "npm test"
  berth run --agent opencode --model anthropic/claude-sonnet-4-5 --key ANTHROPIC_API_KEY "fix the failing test"
  berth run --agent claude --key ANTHROPIC_API_KEY "fix the failing test"
  berth run --agent codex --key OPENAI_API_KEY --permissions ask "fix the failing test"
  berth run --agent opencode --model ollama/qwen3-coder --host-port 11434 "fix the failing test"
  berth run --session ses-0123 "and now the other one"
  berth run --workspace app --json "npm test" | jq .body.type`

export const define: DefineCommand = async (command, context) => {
  command
    .description("Runs a prompt, shows what the agent does, and ends with the diff.")
    .argument("<prompt>", "what the agent is to do; for the agent shell, a command")
    .option("--workspace <slug>", "the workspace to run in")
    .option(
      "--name <slug>",
      "the name of this repo's workspace; default: the name of its directory",
    )
    .option("--replace", "replace a workspace of that name that is for another repo")
    .option("--session <session>", "the session to go on with: its id, or the beginning of it")
    .option("--no-diff", "end without the diff")
    .option("--detach", "end when the prompt is accepted, with the session's id")
    .option("--json", "write the events, one a line")
    .addHelpText("after", HELP)
  addWorkspaceFlags(command)
  await addConfigFlags(command, "dataDir")
  command.action(async (text: string, options) => {
    if (text.trim() === "") throw new BerthError("input.usage", "the prompt is empty")
    const { flags, others } = workspaceFlags(options)
    const { workspace, name, replace, session: given, diff, detach, json = false, ...host } = others
    checkPrompt(text)
    const client = await connectForLong(host)
    const place = { workspace, name, replace, session: given }
    const { session, changes, agent } = await sessionFor(client, place, flags)
    for (const change of json ? [] : sayChanges(changes)) context.err(printable(`${change}\n`))
    if (agent !== undefined && !json) context.err(`agent: ${agent} (for this session)\n`)
    const { lastEvent: after, workspace: slug, agent: asking } = await session.get()
    const prompt = await session.prompt(text, { key: newId.prompt() })
    if (detach) {
      const accepted = { session: session.id, prompt: prompt.id, set: changes }
      context.out(json ? toJsonLine(accepted) : `${session.id}\n`)
      return
    }
    const isDenied = "permissions" in asking && asking.permissions === "deny"
    const hasRun = await watch({ session, prompt, after, json, isDenied }, context)
    if (hasRun && diff && !json) await showDiff(client, slug, context)
  })
}

/** Checks the prompt before anything is made for it. */
const checkPrompt = (text: string): void => {
  const parsed = PromptText.safeParse(text)
  if (parsed.success) return
  const problem = text === "" ? "is empty" : parsed.error.issues[0]?.message
  throw new BerthError("input.usage", `the prompt ${problem}`)
}

interface Running {
  readonly session: Session
  readonly prompt: Prompt
  readonly after: number
  readonly json: boolean
  /** Whether every act that the agent asks for is denied already. */
  readonly isDenied: boolean
}

/** Shows the events until the prompt has ended. Returns whether it has run and ended. */
const watch = async (
  { session, prompt: { id: prompt, waitsFor }, after, json, isDenied }: Running,
  { out, err, exitWith, isScreen }: CommandContext,
): Promise<boolean> => {
  const isShown = process.stdout.isTTY === true
  const screen = new Screen({ text: (text) => out(isShown ? printable(text) : text), line: err })
  const preparing = preparingLine({ err, isScreen })
  const line = (text: string) => {
    if (json) return
    preparing.end()
    screen.line(text)
  }
  const asks = new AskAnswers({
    line,
    answer: (answer) => session.answer(answer),
    session: session.id,
    isAttended: !json && process.stdin.isTTY === true && process.stderr.isTTY === true,
  })
  const boot = new BootWaits(line)
  const show = (event: Event) => {
    if (json) out(toJsonLine(event))
    else if (isPreparing(event.body)) preparing.show(printable(event.body.message))
    else {
      preparing.end()
      screen.show(event.body)
    }
    boot.take(event.body)
    if (!isDenied || event.body.type !== "permission.asked") asks.take(event.body)
  }
  const onBreak = ({ message }: BerthError) => line(`${message}: it is waited for`)
  const over = new AbortController()
  const stop = () => {
    exitWith(LEFT)
    line("stopping; once more leaves at once")
    stopPrompt(session, prompt, over.signal).catch((thrown) => {
      if (!over.signal.aborted) err(renderError(thrown, { json }))
    })
  }
  line(`session ${session.id}`)
  if (waitsFor?.code === "prompt.earlier") line(`waiting: ${waitsFor.message}`)
  exitWith(FAILED)
  try {
    const { state, reason, hasRun } = await leftBySecondSignal(stop, (signal) =>
      watchPrompt(session, { prompt, after, onEvent: show, onBreak, signal }),
    )
    if (state === "succeeded") exitWith(DONE)
    line(`${state}${reason === undefined ? "" : `: ${reason}`}`)
    return hasRun
  } catch (thrown) {
    if (!(thrown instanceof BerthError) || thrown.code !== "cancelled") throw thrown
    line(`left; to come back: berth log --follow ${session.id}`)
    return false
  } finally {
    over.abort()
    preparing.end()
    boot.end()
    asks.close()
  }
}

type Waiting = Extract<EventBody, { type: "prompt.waiting" }>

const isPreparing = (body: EventBody): body is Waiting =>
  body.type === "prompt.waiting" && body.code === "toolbox.preparing"

const showDiff = async (
  client: Client,
  workspace: string,
  { out, err }: CommandContext,
): Promise<void> => {
  const { repos } = await client.workspaces.get(workspace)
  const sandbox = await findSandbox(client, workspace, err, { start: true })
  for (const repo of repos) {
    const directory = directoryOfRepo(repo)
    if (directory === undefined) continue
    const diff = await sandbox.git.diff(directory)
    if (diff === "") err(printable(`nothing has changed in ${directory}\n`))
    else out(process.stdout.isTTY ? printable(diff) : diff)
  }
}
