import { type Outcome, type RunOptions, run } from "@berth/host/run"
import { BerthError } from "@berth/protocol/errors"

/** The package of most distributions that brings each tool. */
const PACKAGES: Readonly<Record<string, string>> = {
  nft: "nftables",
  ip: "iproute2",
  nsenter: "util-linux",
}

export type Command = readonly [string, ...string[]]

/** Runs one of the host's network tools and gives its outcome, whether or not it succeeded. */
export const ask = async (command: Command, options: RunOptions): Promise<Outcome> => {
  try {
    return await run(command, options)
  } catch (thrown) {
    if (!isMissing(thrown)) throw thrown
    const [tool] = command
    throw new BerthError("backend.unavailable", `${tool} is not installed on this host`, {
      details: { tool, package: PACKAGES[tool] ?? tool },
      cause: thrown,
    })
  }
}

/** Runs a tool and throws if it fails. */
export const demand = async (command: Command, options: RunOptions): Promise<string> => {
  const outcome = await ask(command, options)
  if (outcome.status !== 0) throw refusal(command, outcome)
  return outcome.stdout
}

export const refusal = (command: Command, { status, stderr }: Outcome): BerthError =>
  new BerthError("backend.engine_failed", `${command.join(" ")} failed`, {
    details: { command, status, engineSaid: stderr.trim() },
  })

const isMissing = (thrown: unknown): boolean =>
  thrown instanceof Error && (thrown as NodeJS.ErrnoException).code === "ENOENT"
