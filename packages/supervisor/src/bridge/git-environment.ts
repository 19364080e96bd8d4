import { OWN_PROGRAM_FLAGS } from "../processes/own-program.ts"

/** Where git's credential helper reaches the supervisor: a directory of its own, since the link is for root alone. */
export const CREDENTIALS_SOCKET = "/run/berth-git/credentials.sock"

export interface HelperPlaces {
  readonly node: string
  readonly helper: string
  readonly socket: string
}

const PLACES: HelperPlaces = {
  node: "/opt/berth/bin/node",
  helper: "/opt/berth/supervisor/credential-helper.cjs",
  socket: CREDENTIALS_SOCKET,
}

/**
 * What makes every git of the user ask us for credentials, and nobody else: no other helper gets to keep them.
 * As environment it is in no file of the user's, so no layer and no repo brings it along or changes it.
 */
export const gitEnvironment = ({ node, helper, socket }: HelperPlaces = PLACES) => {
  const words = [node, ...OWN_PROGRAM_FLAGS, helper, socket]
  const settings = [
    // Forgets the helpers that files name.
    ["credential.helper", ""],
    ["credential.helper", `!${UNCHANGED} ${words.map(quoted).join(" ")}`],
    // The server grants by repo, so it must be told which.
    ["credential.useHttpPath", "true"],
  ] as const
  const numbered = settings.flatMap(([key, value], place) => [
    [`GIT_CONFIG_KEY_${place}`, key],
    [`GIT_CONFIG_VALUE_${place}`, value],
  ])
  return { GIT_CONFIG_COUNT: String(settings.length), ...Object.fromEntries(numbered) } as Record<
    string,
    string
  >
}

/** The helper runs in the user's environment, in which these would change what node does. */
const UNCHANGED = "NODE_OPTIONS= LD_PRELOAD="

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
