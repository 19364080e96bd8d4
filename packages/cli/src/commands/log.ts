import { BerthError } from "@berth/protocol/errors"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import type { Transcript } from "@berth/protocol/sessions"
import type { Session } from "@berth/sdk/sessions"
import { type DefineCommand, toJson, toJsonLine } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { answerCommand, sayAsk } from "../say-ask.ts"
import { Screen } from "../screen.ts"
import { connectForLong, findSession } from "../server.ts"
import { cancelledBySignal } from "../signals.ts"
import { printable } from "../terminal.ts"

const HELP = `
Each prompt is shown with the agent's words and acts, and with how it ended or what it waits for; then the agent's
asks, and how to answer them. With --follow, new events are shown until ctrl-c; a prompt that waits behind another
is shown when it begins, and the session goes on. With --json the log is one value; with --json and --follow it is
every event since the first, one a line.

Examples:
  berth log ses-0123
  berth log app --follow
  berth log app --follow --json | jq .body.type`

export const define: DefineCommand = async (command, { out }) => {
  command
    .description("Shows what was said and done in a session.")
    .argument("<session>", "its id, the beginning of it, or a workspace, for its latest")
    .option("--follow", "then show new events")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, { follow = false, json = false, ...host }) => {
    const session = await findSession(await connectForLong(host), name)
    const isShown = process.stdout.isTTY === true
    const text = (said: string) => out(isShown ? printable(said) : said)
    const screen = new Screen({ text, line: out })
    if (json && follow)
      return await following(session, 0, async (_, whole) => out(toJsonLine(whole)))
    const transcript = await session.messages()
    if (json) return out(toJson(transcript))
    const turns = follow ? untilPending(transcript.turns) : transcript.turns
    show(turns, screen)
    for (const ask of (await session.get()).asks) {
      screen.line(`? ${ask.ask}: ${sayAsk(ask)}`)
      for (const [index, choice] of ask.choices.entries()) screen.line(`  ${index + 1}. ${choice}`)
      screen.line(`? to answer: ${answerCommand(session.id, ask)}`)
    }
    const shown = new Set(turns.map(({ prompt }) => prompt.id))
    const go = (body: EventBody) => goOn(session, { screen, shown }, body)
    if (follow) await following(session, transcript.lastEvent, go)
  })
}

const following = async (
  session: Session,
  after: number,
  take: (body: EventBody, whole: unknown) => Promise<void>,
): Promise<void> => {
  try {
    await cancelledBySignal(async (signal) => {
      for await (const event of session.events({ after, signal })) await take(event.body, event)
    })
  } catch (thrown) {
    if (!(thrown instanceof BerthError) || thrown.code !== "cancelled") throw thrown
  }
}

type Turns = Transcript["turns"]

/** The turns up to the first that has not ended: the prompts behind it are shown when they begin. */
const untilPending = (turns: Turns): Turns => {
  const first = turns.findIndex(
    ({ prompt: { state } }) => state === "queued" || state === "running",
  )
  return first === -1 ? turns : turns.slice(0, first + 1)
}

const show = (turns: Turns, screen: Screen): void => {
  for (const { prompt, parts } of turns) {
    screen.showPrompt(prompt.text)
    for (const part of parts) screen.showPart(part)
    const { state, waitsFor } = prompt
    if (waitsFor !== null) screen.line(`(${state}: ${waitsFor.message})`)
    else if (state !== "running") screen.line(endOf(state, prompt.reason))
  }
}

interface Shown {
  readonly screen: Screen
  /** The prompts whose text has been shown. */
  readonly shown: Set<PromptId>
}

/** Shows an event: a prompt when it begins, unless it was shown before, and its end when it ends. */
const goOn = async (session: Session, { screen, shown }: Shown, body: EventBody): Promise<void> => {
  if (body.type !== "prompt.state") return screen.show(body)
  if (body.state === "queued") return
  if (body.state !== "running") return screen.line(endOf(body.state, body.reason))
  if (shown.has(body.prompt)) return
  shown.add(body.prompt)
  const begun = (await session.prompts()).find(({ id }) => id === body.prompt)
  if (begun !== undefined) screen.showPrompt(begun.text)
}

const endOf = (state: string, reason: string | null | undefined): string =>
  `(${state}${reason == null ? "" : `: ${reason}`})`
