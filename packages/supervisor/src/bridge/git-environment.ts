import { OWN_PROGRAM_FLAGS } from "../processes/own-program.ts"

/**
 * The socket on which git's credential helper reaches the supervisor. Its directory is its own, since the link
 * directory is for root alone.
 */
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
 * Variables that make every git of the user ask only us for credentials, so that no other helper can keep them. As
 * environment variables they are in no file of the user's, so no layer and no repo brings them along or changes them.
 */
export const gitEnvironment = ({ node, helper, socket }: HelperPlaces = PLACES) => {
  const words = [node, ...OWN_PROGRAM_FLAGS, helper, socket]
  const settings = [
    // The empty value drops the helpers that files name.
    ["credential.helper", ""],
    ["credential.helper", `!${UNCHANGED} ${words.map(quoted).join(" ")}`],
    // The server grants credentials by repo, so it needs the path.
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

/** Clears variables of the user's environment, in which the helper runs, that would change what node does. */
const UNCHANGED = "NODE_OPTIONS= LD_PRELOAD="

const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`
