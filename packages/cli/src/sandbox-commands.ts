import type { CommandInfo } from "@berth/protocol/commands"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxPhase } from "@berth/protocol/sandbox"
import type { Sandbox } from "@berth/sdk/sandboxes"

/** The commands in a sandbox. One that is gone has none, and is not asked: a call would make its successor. */
export const commandsIn = async (
  sandbox: Sandbox,
  { phase }: { readonly phase: SandboxPhase },
): Promise<CommandInfo[]> => (phase === "gone" ? [] : await sandbox.commands.list())

/** The command of that id, or of that beginning of an id; without one, the last that was started in the background. */
export const findCommand = async (
  sandbox: Sandbox,
  name: string | undefined,
): Promise<CommandInfo> => {
  const all = (await commandsIn(sandbox, await sandbox.get())).filter(isInBackground)
  const found = name === undefined ? latestOf(all) : all.filter(({ id }) => isCalled(name, id))
  const [only] = found
  if (only !== undefined && found.length === 1) return only
  if (only === undefined)
    throw new BerthError("commands.unknown", `${sandbox.id} has ${unknown(name)}`)
  const ids = found.map(({ id }) => id).join(", ")
  throw new BerthError("input.usage", `${name} can be any of ${ids}`)
}

const isInBackground = ({ background }: CommandInfo): boolean => background

const latestOf = (commands: readonly CommandInfo[]): CommandInfo[] =>
  commands.toSorted((one, other) => (one.startedAt < other.startedAt ? 1 : -1)).slice(0, 1)

const isCalled = (name: string, id: string): boolean =>
  id === name || (name.startsWith("cmd-") && id.startsWith(name))

const unknown = (name: string | undefined): string =>
  name === undefined ? "no command in the background" : `no command ${name} in the background`
