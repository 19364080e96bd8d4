import { seccompProfile } from "../seccomp/profile.ts"

const ENOSYS = 38

/**
 * The filter in the engine's own form. The engine takes the part for its architecture, and passes over calls that this
 * one does not have. Engines before 23 do not read `defaultErrnoRet`: there an unknown call answers EPERM, unless it is
 * newer than every known one. The C libraries use clone only where clone3 answers ENOSYS, so a rule says that.
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
