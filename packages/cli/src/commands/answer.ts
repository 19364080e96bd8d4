import { BerthError } from "@berth/protocol/errors"
import type { AskAnswer, OpenAsk } from "@berth/protocol/session"
import type { Session } from "@berth/sdk/sessions"
import type { DefineCommand } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { answerCommand, sayAsk } from "../say-ask.ts"
import { connect, findSession } from "../server.ts"

const HELP = `
An agent that asks waits for the answer. berth sessions, berth ps and berth log show the ask; berth log also shows
its name. The name can be left out if the agent asks one thing only.

Examples:
  berth answer app --allow
  berth answer app "the second one"
  berth answer ses-0123 ask-4 --deny
  berth answer ses-0123 ask-5 "the second one"
  berth answer ses-0123 ask-5 --decline`

export const define: DefineCommand = async (command) => {
  command
    .description("Answers what an agent asks.")
    .argument("<session>", "its id, the beginning of it, or a workspace, for its latest")
    .argument("[ask]", "the name of the ask; default: the only one")
    .argument("[answer]", "the answer to a question")
    .option("--allow", "grant the permission")
    .option("--deny", "deny the permission")
    .option("--decline", "leave the question without an answer")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(
    async (name: string, first: string | undefined, second: string | undefined, options) => {
      const { allow, deny, decline, ...host } = options
      const isFlagged = allow || deny || decline
      // A single word beside a flag names the ask; without a flag it is the answer to the only one.
      const [ask, said] = isFlagged || second !== undefined ? [first, second] : [undefined, first]
      const given = { said, allow, deny, decline }
      checkGiven(given)
      const session = await findSession(await connect(host), name)
      await session.answer(answerOf(ask ?? (await onlyAsk(session, given)).ask, given))
    },
  )
}

interface Given {
  readonly said?: string | undefined
  readonly allow?: boolean
  readonly deny?: boolean
  readonly decline?: boolean
}

const checkGiven = ({ said, allow, deny, decline }: Given): void => {
  const given = [said, allow, deny, decline].filter((each) => each !== undefined)
  if (given.length !== 1)
    throw new BerthError("input.usage", "one of --allow, --deny, --decline and an answer is needed")
}

const answerOf = (ask: string, { said, allow, deny }: Given): AskAnswer => {
  if (allow || deny) return { kind: "permission", ask, allow: allow === true }
  return { kind: "question", ask, answer: said ?? null }
}

const onlyAsk = async (session: Session, { allow, deny }: Given): Promise<OpenAsk> => {
  const { asks } = await session.get()
  const [only, ...others] = asks
  if (only === undefined)
    throw new BerthError("session.nothing_asked", `the agent of ${session.id} asks nothing`)
  if (others.length > 0) {
    const lines = asks.map((ask) => `${answerCommand(session.id, ask)}: ${sayAsk(ask)}`)
    throw new BerthError("input.usage", `the agent asks ${asks.length} things: ${lines.join("; ")}`)
  }
  if ((only.kind === "permission") !== (allow === true || deny === true))
    throw new BerthError("input.usage", `${sayAsk(only)}; ${answerCommand(session.id, only)}`)
  return only
}
