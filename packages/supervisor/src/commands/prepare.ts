import type { CommandStart } from "@berth/protocol/commands"
import type { FeatureParts } from "../features/parts.ts"
import { workingDirectory } from "../features/working-directory.ts"
import type { Launch } from "../processes/launch.ts"

/** The process to launch for a start request. */
export const prepare = (start: CommandStart, parts: FeatureParts): Launch => ({
  command: start.command as [string, ...string[]],
  cwd: workingDirectory(start.cwd, parts),
  env: {
    ...(start.user === "root" ? rootEnvironment(parts) : parts.environment),
    ...start.env,
  },
  user: start.user === "root" ? undefined : parts.user,
})

/** The environment of root's commands. PATH has no directory in which the user can put a program. */
const rootEnvironment = ({ environment, places }: FeatureParts): Record<string, string> => ({
  ...environment,
  PATH: (environment.PATH ?? "")
    .split(":")
    .filter(
      (directory) => directory.startsWith("/") && !`${directory}/`.startsWith(`${places.home}/`),
    )
    .join(":"),
  HOME: "/root",
  USER: "root",
  LOGNAME: "root",
})
