import { BerthError } from "@berth/protocol/errors"
import type { AskAnswer } from "@berth/protocol/session"
import type { DefineCommand } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect, findSession } from "../server.ts"

const HELP = `
An agent that asks waits until it is answered. berth run and berth log show what it asks, and under which name.

Examples:
  berth answer ses-0123 ask-4 --allow
  berth answer ses-0123 ask-5 "the second one"
  berth answer ses-0123 ask-5 --decline`

export const define: DefineCommand = async (command) => {
  command
    .description("Answers what an agent asks.")
    .argument("<session>", "its id, the beginning of it, or a workspace, for its latest")
    .argument("<ask>", "what was asked, by its name")
    .argument("[answer]", "to a question")
    .option("--allow", "it may")
    .option("--deny", "it may not")
    .option("--decline", "leave the question without an answer")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, ask: string, said: string | undefined, options) => {
    const { allow, deny, decline, ...host } = options
    const answer = answerOf(ask, { said, allow, deny, decline })
    await (await findSession(await connect(host), name)).answer(answer)
  })
}

interface Given {
  readonly said?: string | undefined
  readonly allow?: boolean
  readonly deny?: boolean
  readonly decline?: boolean
}

const answerOf = (ask: string, { said, allow, deny, decline }: Given): AskAnswer => {
  const given = [said, allow, deny, decline].filter((each) => each !== undefined)
  if (given.length !== 1)
    throw new BerthError("input.usage", "one of --allow, --deny, --decline and an answer is needed")
  if (allow || deny) return { kind: "permission", ask, allow: allow === true }
  return { kind: "question", ask, answer: said ?? null }
}
