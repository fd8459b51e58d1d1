"""How an application gets the plugin EP without naming its device: ONNX Runtime's policies. After the cases of ONNX Runtime's own tests, written anew."""

import pytest
from cli_support import conv_model, save
from test_plugin import EP, onnxruntime
from test_plugin_sessions import agree, numbers

POLICIES = onnxruntime.OrtExecutionProviderDevicePolicy
X = numbers(2, 3, 8, 8)


@pytest.fixture
def net(tmp_path):
    return save(conv_model(), tmp_path / "net.onnx")


def chosen(net, choose):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    choose(options)
    return onnxruntime.InferenceSession(str(net), options)


@pytest.mark.parametrize("policy", ["PREFER_CPU", "MAX_PERFORMANCE"])
def test_policies_that_take_it(net, policy):
    """Where it is registered, applications with such a policy get it without a change."""
    ours = chosen(net, lambda options: options.set_provider_selection_policy(getattr(POLICIES, policy)))
    assert EP in ours.get_providers()
    agree(net, {"x": X}, ours)


def test_a_delegate_that_takes_it(net):
    seen = []

    def take(devices, _model, _runtime, most):
        seen.extend(device.ep_name for device in devices)
        return [device for device in devices if device.ep_name == EP][:most]

    ours = chosen(net, lambda options: options.set_provider_selection_policy_delegate(take))
    assert EP in seen
    assert EP in ours.get_providers()
    agree(net, {"x": X}, ours)


def test_a_delegate_that_takes_nothing(net):
    with pytest.raises(Exception, match="did not select anything"):
        chosen(net, lambda options: options.set_provider_selection_policy_delegate(lambda *_: []))
