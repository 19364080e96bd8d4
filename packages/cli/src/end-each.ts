import type { Client } from "@berth/sdk/client"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { type CommandContext, toJsonLine } from "./command.ts"
import { renderError } from "./render-error.ts"
import { findSandbox } from "./server.ts"

export interface Ending {
  /** What those are called that have ended, in JSON. */
  readonly word: "removed" | "stopped"
  readonly json: boolean
  readonly end: (sandbox: Sandbox) => Promise<void>
}

/** Ends all that are named, each whatever becomes of the others, also of those that are not there. */
export const endEach = async (
  client: Client,
  names: readonly string[],
  { word, json, end }: Ending,
  { out, err, fail }: CommandContext,
): Promise<void> => {
  const failed = (thrown: unknown) => {
    fail()
    err(renderError(thrown, { json }))
  }
  const found: Sandbox[] = []
  for (const name of names) {
    try {
      found.push(await findSandbox(client, name, err))
    } catch (thrown) {
      failed(thrown)
    }
  }
  const sandboxes = [...new Map(found.map((sandbox) => [sandbox.id, sandbox])).values()]
  const ended: string[] = []
  await Promise.all(
    sandboxes.map(async (sandbox) => {
      try {
        await end(sandbox)
        ended.push(sandbox.id)
        if (!json) out(`${sandbox.id}\n`)
      } catch (thrown) {
        failed(thrown)
      }
    }),
  )
  if (json) out(toJsonLine({ [word]: ended }))
}
