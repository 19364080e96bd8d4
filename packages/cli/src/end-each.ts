import { BerthError } from "@berth/protocol/errors"
import type { Client } from "@berth/sdk/client"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { type CommandContext, toJsonLine } from "./command.ts"
import { renderError } from "./render-error.ts"
import { findSandbox } from "./server.ts"

export interface Ending {
  /** The name of the list of ended sandboxes in JSON. */
  readonly word: "removed" | "stopped"
  readonly json: boolean
  readonly end: (sandbox: Sandbox) => Promise<void>
  /** Ends something of that name that has no sandbox. Default: refused. */
  readonly endUnmade?: (name: string) => Promise<void>
}

/** Ends all named sandboxes, each independently of the others' failures. */
export const endEach = async (
  client: Client,
  names: readonly string[],
  { word, json, end, endUnmade }: Ending,
  { out, err, fail }: CommandContext,
): Promise<void> => {
  const failed = (thrown: unknown) => {
    fail()
    err(renderError(thrown, { json }))
  }
  const ended: string[] = []
  const succeeded = (name: string) => {
    ended.push(name)
    if (!json) out(`${name}\n`)
  }
  const found: Sandbox[] = []
  const endWithoutSandbox = async (name: string, unknown: unknown): Promise<void> => {
    if (endUnmade === undefined || !isUnknown(unknown)) return failed(unknown)
    try {
      await endUnmade(name)
      succeeded(name)
    } catch (thrown) {
      // Its sandbox was made since it was looked for.
      if (isInUse(thrown)) return findAndEnd(name)
      failed(isUnknown(thrown) ? unknown : thrown)
    }
  }
  const findAndEnd = async (name: string): Promise<void> => {
    try {
      found.push(await findSandbox(client, name, err))
    } catch (thrown) {
      await endWithoutSandbox(name, thrown)
    }
  }
  for (const name of names) await findAndEnd(name)
  const sandboxes = [...new Map(found.map((sandbox) => [sandbox.id, sandbox])).values()]
  await Promise.all(
    sandboxes.map(async (sandbox) => {
      try {
        await end(sandbox)
        succeeded(sandbox.id)
      } catch (thrown) {
        failed(thrown)
      }
    }),
  )
  if (json) out(toJsonLine({ [word]: ended }))
}

const isUnknown = (thrown: unknown): boolean =>
  thrown instanceof BerthError && thrown.code === "not_found"

const isInUse = (thrown: unknown): boolean =>
  thrown instanceof BerthError && thrown.code === "sandbox.in_use"
