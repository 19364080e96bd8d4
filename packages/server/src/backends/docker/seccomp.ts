import { seccompProfile } from "../seccomp/profile.ts"

const ENOSYS = 38

/**
 * The filter in the engine's own form. It takes what fits its architecture: calls that this one does not have are passed
 * over. Engines before 23 do not read `defaultErrnoRet`: there an unknown call answers EPERM, unless it is newer than every
 * known one. The C libraries take clone only where clone3 does not exist, so that is said here.
 */
export const engineFilter = (): string => {
  const { architectures: _, syscalls, ...rest } = seccompProfile("x64")
  const archMap = ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"].map((architecture) => ({
    architecture,
    subArchitectures: [],
  }))
  const clone3 = { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS }
  return JSON.stringify({ ...rest, archMap, syscalls: [...syscalls, clone3] })
}
